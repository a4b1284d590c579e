"""The acts of `quantgrid archive` that look: status, list, show, verify."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantgrid import layout, verdicts, workspace
from quantgrid.archive import Archive, waiting
from quantgrid.archive.record import Record
from quantgrid.archive.survey import survey
from quantgrid.archive.verify import Damage, verify
from quantgrid.clock import SystemClock
from quantgrid.commands._archive_move import astray
from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import Settings, load_grid, names
from quantgrid.wording import counted, meant


def status(archive: Archive, settings: Settings, options: argparse.Namespace) -> int:
    """Tell what the archive holds and what this working copy has of it."""
    index, root = archive.index(), Path.cwd()
    found = survey(
        index,
        address=archive.store.address,
        identity=archive.find_identity(),
        astray=[str(receipt.path) for receipt in astray(archive, root)],
        folded=_folded(root),
        waiting=waiting.keys(root),
    )
    if options.json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        away = frozenset((*found.unfolded, *found.superseded))
        print("\n".join([found.text(), *(_folds(away, settings) if away else ())]))
    return 0


def _folds(away: frozenset[str], settings: Settings) -> Iterator[str]:
    """The command that brings back what is not here, for each grid that means some of it."""
    science = Science(settings.root)
    for grid in names(settings.root, "grid"):
        with suppress(Refusal):  # a grid that cannot be read hides no other
            cells = trace(load_grid(settings.root, grid), science).cells.values()
            if number := len({stage.record for stage in cells} & away):
                command = f"quantgrid archive fold --grid {grid}"
                yield f"`{command}` brings {counted(number, 'result')} back"


def _folded(root: Path) -> dict[str, str]:
    """Fingerprints of the results of a working copy by cell; unreadable ones count as missing."""
    found = {}
    for path in root.glob(layout.RESULT_FILES):
        try:
            record = json.loads(path.read_bytes())
            found[str(record["cell"])] = str(record["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def list_keys(archive: Archive, _: Settings, options: argparse.Namespace) -> int:
    """Print the keys of all records, sorted."""
    keys = sorted(key for key in archive.index() if key.startswith(options.kind or ""))
    print(json.dumps(keys, indent=2) if options.json else "\n".join(keys))
    return 0


def show(archive: Archive, settings: Settings, options: argparse.Namespace) -> int:
    """Print the records of one cell or milestone."""
    keys = {key for key in archive.index() if layout.owner_of(key) == options.cell}
    if not keys:
        owners = {layout.owner_of(key) for key in archive.index()}
        raise ConfigRefusal(
            f"the archive holds no record of {options.cell}{meant(options.cell, owners)}",
            where=archive.store.address,
        )
    lineage = trace(load_grid(settings.root, settings.grid), Science(settings.root))
    rows = [_row(archive, key, lineage) for key in keys]
    rows.sort(key=lambda row: (row["kind"], row["deposited"], row["fingerprint"]))
    newest = {row["kind"]: row["fingerprint"] for row in rows}
    for row in rows:
        row["is_newest"] = newest[row["kind"]] == row["fingerprint"]
    print(json.dumps(rows, indent=2) if options.json else "\n".join(map(_line, rows)))
    return 0


def _current_records(lineage: Lineage) -> frozenset[str]:
    """Keys of the records that the grid means now."""
    stages = (lineage.milestones, lineage.weights, lineage.cells)
    return frozenset(stage.record for each in stages for stage in each.values())


def _row(archive: Archive, key: str, lineage: Lineage) -> dict[str, Any]:
    kind, fingerprint = key.partition("/")[0], key.rsplit("/", 2)[1]
    is_current = key in _current_records(lineage)
    row = {"kind": kind, "fingerprint": fingerprint, "is_current": is_current}
    try:
        record = archive.record(key)
        verdict = _verdict(archive, record, lineage) if kind == "cells" else None
    except DataFault as fault:
        return {**row, "deposited": "", "problem": fault.message()}
    told = {name: record[name] for name in ("stage", "science", "deposited")}
    return {**row, **told, "verdict": verdict, "loss": record["results"].get("loss")}


def _verdict(archive: Archive, record: Record, lineage: Lineage) -> str | None:
    """The verdict that counts for a cell, as table and page have it; None before any judge's."""
    cell = str(record["cell"])
    base, stage = verdicts.base_of(cell), lineage.cells.get(verdicts.base_of(cell))
    of_base = archive.find_record(stage.record) if stage and base != cell else None
    said = verdicts.counting(_said(archive, record), _said(archive, of_base) if of_base else None)
    return None if said.word == verdicts.UNJUDGED else said.word


def _said(archive: Archive, record: Record) -> verdicts.Said:
    found = verdicts.find_newest(archive, record)
    return verdicts.Said(str(found["verdict"]) if found else verdicts.UNJUDGED)


def _line(row: Mapping[str, Any]) -> str:
    words = [row["kind"], row["fingerprint"][:16]]
    if "problem" in row:
        return " ".join([*words, row["problem"]])
    words += [row["deposited"], row["stage"]]
    words += [row["verdict"] or verdicts.UNJUDGED] if row["kind"] == "cells" else []
    words += [f"loss {row['loss']:.4f}"] if row["loss"] is not None else []
    return " ".join(words + [word for word in ("current", "newest") if row[f"is_{word}"]])


def check(archive: Archive, _: Settings, options: argparse.Namespace) -> int:
    """Read every byte, and name what is damaged with the cells that need it."""
    with workspace.attempt(Path.cwd(), SystemClock()) as scratch:  # jobs read from the cache
        found = verify(archive, scratch, _tell)
    doubtful = [Damage(*each) for each in verdicts.damages(archive.store)]
    found = replace(found, damages=(*found.damages, *doubtful))
    if options.json:
        damages = {damage.key: damage.problem for damage in found.damages}
        cells = {damage.key: damage.cells for damage in found.damages}
        counts = {"records": found.records, "blobs": found.blobs}
        print(json.dumps({**counts, "damaged": damages, "cells": cells}, indent=2))
    else:
        for damage in found.damages:
            print(damage.line())
        print(
            f"read {counted(found.records, 'record')} and {counted(found.blobs, 'blob')}: "
            f"{len(found.damages)} damaged"
        )
    return DataFault.exit_code if found.damages else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
