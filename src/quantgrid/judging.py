"""Brings verdicts and results together: judges a record that nobody judged, and publishes both."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quantgrid import atomic, judge, layout, ledger, verdicts
from quantgrid.archive import Archive
from quantgrid.archive.record import Record, parse_record
from quantgrid.clock import Clock, timestamp
from quantgrid.errors import ArchiveRefusal, ConfigRefusal, DataFault, PlatformFault
from quantgrid.verdicts import Said, Verdict, Word
from quantgrid.wording import counted, meant

_SKEW_S = 60.0
"""A table so much newer than a verdict that was just published was not made meanwhile."""


def verdict_on(archive: Archive, record: Record, clock: Clock) -> Verdict:
    """The verdict that counts; one of this judge is appended where an older one or none did.

    Raises:
        DataFault: when a verdict in the archive is damaged.
    """
    newest = verdicts.find_newest(archive, record)
    if newest and (verdicts.is_by_person(newest) or newest["by"]["judge"] >= judge.VERSION):
        return newest
    made = of_judge(record, clock)
    try:
        verdicts.append(archive, made)
    except PlatformFault as fault:  # whoever asks next comes to the same verdict
        print(f"warning: the verdict is kept here alone; {fault}", file=sys.stderr, flush=True)
    return made


def of_judge(record: Record, clock: Clock) -> Verdict:
    """What this judge says, with its evidence."""
    judgement = judge.judge(record)
    evidence: list[Mapping[str, Any]] = [
        {"question": each.question, "verdict": str(each.word), "seen": each.seen}
        for each in judgement.evidence
    ]
    return verdicts.sealed(
        record,
        judgement.word,
        reason=judgement.reason,
        by={"judge": judge.VERSION},
        at=timestamp(clock.now()),
        evidence=evidence,
    )


def said_of(archive: Archive, record: Record) -> Said:
    """What is said of a record: the verdict that counts, or what this judge would say now.

    Nothing is appended: who looks changes nothing.

    Raises:
        DataFault: when a verdict in the archive is damaged.
    """
    newest = verdicts.find_newest(archive, record)
    if newest is None:
        judgement = judge.judge(record)
        return Said(str(judgement.word), judgement.reason)
    return Said(str(newest["verdict"]), str(newest.get("reason", "")))


def judged(archive: Archive, record: Record, clock: Clock) -> Record:
    """A record that carries the verdict on it; `verdict` stands outside its digest."""
    return {**record, "verdict": verdict_on(archive, record, clock)}


def rejected(archive: Archive, record: Record, clock: Clock, *, by: str, reason: str) -> Record:
    """A record that carries a person's rejection, which is in the archive.

    Raises:
        PlatformFault: when the archive cannot be written: a rejection is not only for here.
    """
    verdict = verdicts.sealed(
        record, Word.INVALID, reason=reason, by={"person": by}, at=timestamp(clock.now())
    )
    verdicts.append(archive, verdict)
    return {**record, "verdict": verdict}


def results(root: Path, cells: Iterable[str] = ()) -> Iterator[Record]:
    """Verified results of a working copy: of some cells, or all.

    Raises:
        ConfigRefusal: when a cell has no result here.
        DataFault: when one is damaged, or lies where another cell's belongs.
    """
    here = {_cell(path): path for path in sorted(root.glob(layout.RESULT_FILES))}
    named = list(dict.fromkeys(cells))
    for cell in named:
        if cell not in here:
            raise ConfigRefusal(
                f"{cell} has no result here to be judged{meant(cell, here)}",
                where=root / layout.RESULTS,
                do="Ask Snakemake for it.",
            )
    for cell in named or here:
        record = parse_record(here[cell].read_bytes(), where=str(here[cell]))
        if record["cell"] != cell:
            raise DataFault(
                "a result is that of another cell",
                expected=cell,
                seen=record["cell"],
                where=here[cell],
                do="Remove the file; the next run brings its own back.",
            )
        yield record


def refuse_unarchived(archive: Archive, records: Iterable[Record]) -> None:
    """Refuse to judge what the archive lacks: a verdict would lie where its record is not.

    A place that nobody mounted is an empty folder, and what is written there is seen no more.

    Raises:
        ArchiveRefusal: naming the first such cell.
    """
    index = archive.index()
    for record in records:
        key = layout.record_key("cells", str(record["cell"]), str(record["fingerprint"]))
        if key not in index:
            raise ArchiveRefusal(
                f"the archive lacks the record of {record['cell']}, so nothing was judged",
                expected=key,
                seen=counted(len(index), "record"),
                where=archive.store.address,
                do="Put the right archive back: is it mounted, is `archive` its address?",
            )


def bring(root: Path, records: Iterable[Record]) -> None:
    """Put verdicts beside the results of a working copy, and into its ledger."""
    found = list(records)
    for record in found:
        publish(_result(root, str(record["cell"])), record)
    if found:
        _outdate(root, verdicts.beside(_result(root, str(found[-1]["cell"]))))
    ledger.enter_all(root / layout.LEDGER, root / layout.LEDGER_LOCK, found)


def _outdate(root: Path, verdict: Path) -> None:
    """Remove tables and pages of the future: Snakemake would take them for newer than a verdict.

    A clock that was ahead made them, of this machine before it was set or of another one; the
    rejected cell would stay in them for good.
    """
    now_s = verdict.stat().st_mtime
    for table in root.glob(layout.TABLE.format(grid="*")):
        for path in (table, root / layout.PAGE.format(grid=table.stem)):
            if path.is_file() and path.stat().st_mtime > now_s + _SKEW_S:
                path.unlink(missing_ok=True)


def _cell(result: Path) -> str:
    return f"{result.parent.parent.name}/{result.parent.name}"


def _result(root: Path, cell: str) -> Path:
    base, _, variant = cell.partition("/")
    return root / layout.RESULT.format(base=base, variant=variant)


def publish(result: Path, record: Record) -> None:
    """Put the verdict that a record carries beside its result."""
    atomic.publish_json(verdicts.beside(result), dict(record["verdict"]))
