"""Verdicts: appended to the archive beside the records they judge, and copied beside results.

A verdict is created once and never changed; a later one with a higher number takes its place.
`docs/formats/verdict.md` describes every field.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout
from quantgrid.archive import Archive
from quantgrid.archive.record import Record
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest
from quantgrid.store import Store

SCHEMA = "quantgrid/verdict"
VERSION = 1
UNJUDGED = "unjudged"

Verdict = Mapping[str, Any]


class Word(StrEnum):
    """What is thought of a finished cell."""

    VALID = "VALID"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


_ORDER = [Word.VALID, UNJUDGED, Word.SUSPECT, Word.INVALID]
_DOUBTED = {Word.SUSPECT, Word.INVALID}
_BASE = "none"


def sealed(
    record: Record, word: Word, *, reason: str, by: Mapping[str, Any], at: str, **more: Any
) -> Verdict:
    """A verdict with the digest of all its other fields.

    Args:
        record: What is judged.
        word: The verdict.
        reason: One sentence; empty when VALID.
        by: The judge: `{"judge": version}` or `{"person": name}`.
        at: When.
        more: Further fields, such as the evidence.
    """
    body = {
        "schema": SCHEMA,
        "version": VERSION,
        "cell": record["cell"],
        "fingerprint": record["fingerprint"],
        "record": record["digest"],
        "verdict": str(word),
        "reason": reason,
        "by": dict(by),
        "at": at,
        **more,
    }
    return {**body, "digest": digest(body)}


def parse_verdict(data: bytes, *, where: str) -> Verdict:
    """Read and verify a verdict.

    Raises:
        DataFault: when it is not JSON, not a verdict, of a later version, or damaged.
    """
    try:
        verdict = json.loads(data)
        claimed, kind = verdict["digest"], (verdict["schema"], int(verdict["version"]) <= VERSION)
        seen = digest({name: value for name, value in verdict.items() if name != "digest"})
        Word(verdict["verdict"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataFault(
            "a verdict cannot be read", expected=SCHEMA, seen=repr(data[:60]), where=where
        ) from error
    if seen != claimed or kind != (SCHEMA, True):
        raise DataFault("a verdict is damaged", expected=claimed, seen=seen, where=where)
    return verdict  # type: ignore[no-any-return]


def word_of(record: Record) -> str:
    """The verdict that a record read from here carries, or `unjudged`."""
    verdict = record["verdict"]
    if verdict is None:
        return UNJUDGED
    return str(verdict["verdict"] if isinstance(verdict, Mapping) else verdict)


def reason_of(record: Record) -> str:
    """Why the verdict that a record carries is not VALID; empty when it is."""
    verdict = record["verdict"]
    return str(verdict.get("reason", "")) if isinstance(verdict, Mapping) else ""


class Said(NamedTuple):
    """What is said of a cell: a verdict's word, and why it is not VALID."""

    word: str
    reason: str = ""


def base_of(cell: str) -> str:
    """The cell that measures the base of a cell; a base is its own."""
    return f"{cell.partition('/')[0]}/{_BASE}"


def counting(own: Said, base: Said | None) -> Said:
    """What counts for a cell, wherever it is shown: a form is never better than its base.

    Args:
        own: What is said of the cell itself.
        base: What is said of its base; None, or the very same, for a base and what has none.
    """
    if base is None or base is own:
        return own
    because = f"its base is {base.word}" if base.word in _DOUBTED else ""
    because += f": {base.reason}" if because and base.reason else ""
    word = max(own.word, base.word, key=_rank)
    return Said(word, "; ".join(filter(None, (own.reason, because))))


def _rank(word: str) -> int:
    """How bad a verdict is; a word that nobody knows is no verdict."""
    return _ORDER.index(word if word in _ORDER else UNJUDGED)


def is_by_person(verdict: Verdict) -> bool:
    """Whether somebody gave it, whom no judge overrules."""
    return "person" in verdict["by"]


def find_newest(archive: Archive, record: Record) -> Verdict | None:
    """The verdict that counts for a record, None when nobody judged it.

    Every archive that is read has a say; among their newest, the latest counts, and a person's
    before any judge's: a judge that looked before the person spoke may have appended afterwards.

    Raises:
        DataFault: when it is damaged.
    """
    found = [_newest_in(store, record) for store in (archive.store, *archive.others)]
    known = [verdict for verdict in found if verdict]
    return max(known, key=lambda each: (is_by_person(each), str(each["at"])), default=None)


def append(archive: Archive, verdict: Verdict) -> None:
    """Put a verdict after those that are there.

    Raises:
        PlatformFault: when the archive cannot be written.
    """
    data = atomic.json_bytes(dict(verdict))
    cell, own = str(verdict["cell"]), str(verdict["fingerprint"])
    number = len(_keys(archive.store, cell, own))
    while not archive.store.put_once(
        layout.VERDICT_KEY.format(cell=cell, fp=own, number=number), data
    ):
        number += 1  # somebody else appended one at the same time


def find_local(result: Path, record: Record) -> Verdict | None:
    """The verdict beside a result, None when there is none on this very record.

    Raises:
        DataFault: when it is damaged.
    """
    path = beside(result)
    try:
        verdict = parse_verdict(path.read_bytes(), where=str(path))
    except FileNotFoundError:
        return None
    return verdict if verdict["record"] == record["digest"] else None


def beside(result: Path) -> Path:
    """Where the verdict on a result lies."""
    return result.with_name(Path(layout.VERDICT).name)


def _newest_in(store: Store, record: Record) -> Verdict | None:
    newest = None
    for key in reversed(_keys(store, str(record["cell"]), str(record["fingerprint"]))):
        verdict = parse_verdict(store.get(key), where=f"{store.address}/{key}")
        if verdict["record"] == record["digest"]:
            if is_by_person(verdict):
                return verdict
            newest = newest or verdict
    return newest


def _keys(store: Store, cell: str, fingerprint: str) -> list[str]:
    first = layout.VERDICT_KEY.format(cell=cell, fp=fingerprint, number=0)
    return sorted(store.list(first.rpartition("/")[0]))


def copy(source: Archive, target: Archive) -> int:
    """Copy verdicts that the target lacks; how many those were.

    Raises:
        DataFault: when one is damaged.
    """
    copied = 0
    for key in all_in(source.store):
        data, there = source.store.get(key), target.store.find(key)
        verdict = parse_verdict(data, where=f"{source.store.address}/{key}")
        if there != data:
            append(target, verdict)
            copied += 1
    return copied


def damages(store: Store) -> Iterator[tuple[str, str]]:
    """Keys of verdicts that are damaged, and how."""
    for key in all_in(store):
        try:
            parse_verdict(store.get(key), where=key)
        except DataFault as fault:
            yield key, fault.message()


def all_in(store: Store) -> list[str]:
    """The keys of all verdicts of a store, sorted."""
    return sorted(store.list(layout.VERDICT_KEY.partition("/")[0]))
