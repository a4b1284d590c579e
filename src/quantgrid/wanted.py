"""Which cells a table must show, and whether a table and its page show them already.

What a table shows is told by its content and never by times, which a copy gives in any order.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.archive.record import parse_record
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest_file
from quantgrid.select import AnyCell
from quantgrid.verdicts import UNJUDGED, Said, Word, base_of, counting

_HEAD_BYTES = 4096


def publish_wanted(
    path: Path,
    grid: str,
    cells: Mapping[str, str],
    table: Path,
    verdicts: Mapping[str, str],
) -> None:
    """Write which cells a table must show, only when that changed.

    A table that shows other cells, as after a copy over it, or other verdicts, as after a
    rejection, is named: Snakemake goes by content where times mislead, and makes the table again.
    """
    wanted = {"grid": grid, "cells": dict(cells)}
    if shown_cells(table) is not None and not is_table_of(table, cells, verdicts):
        wanted["instead_of"] = digest_file(table)
    # in the order of the grid, which the table keeps
    data = (json.dumps(wanted, indent=2) + "\n").encode()
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    atomic.publish(path, data)


def shown_cells(table: Path) -> Mapping[str, str] | None:
    """The cells of a table with their fingerprints; None when there is no readable table."""
    return shown(table, "fingerprint")


def is_table_of(table: Path, cells: Mapping[str, str], verdicts: Mapping[str, str]) -> bool:
    """Whether a table shows these cells with these fingerprints and these verdicts."""
    return shown_cells(table) == cells and shown(table, "verdict") == verdicts


def shown(table: Path, column: str) -> Mapping[str, str] | None:
    """A column of a table by cell; None when there is no readable table with such a column."""
    try:
        with table.open(newline="") as file:
            return {row["cell"]: row[column] for row in csv.DictReader(file)}
    except (OSError, KeyError, UnicodeDecodeError):
        return None


def local_verdicts(root: Path, cells: Mapping[str, str]) -> dict[str, str]:
    """What a table must say of cells: the worse of a cell's own verdict and its base's.

    Args:
        root: The working copy.
        cells: Cell -> fingerprint; a verdict on another one counts for nothing.
    """
    own = {cell: Said(_verdict(root, cell, made)) for cell, made in cells.items()}
    return {cell: counting(said, own.get(base_of(cell))).word for cell, said in own.items()}


def _verdict(root: Path, cell: str, fingerprint: str) -> str:
    """The verdict beside a result; its digest is verified by who shows it."""
    base, _, variant = cell.partition("/")
    try:
        told = json.loads((root / layout.VERDICT.format(base=base, variant=variant)).read_bytes())
        return str(Word(told["verdict"])) if told["fingerprint"] == fingerprint else UNJUDGED
    except (OSError, ValueError, KeyError, TypeError):
        return UNJUDGED


def source_of(table: Path, laws: Path) -> str:
    """The digests of the files that a page is made from, as the page states them."""
    return f"{digest_file(table)} {digest_file(laws)}"


def is_page_of(page: Path, table: Path, laws: Path) -> bool:
    """Whether a page says that it was made from a table and laws with these bytes."""
    try:
        with page.open("rb") as file:
            return source_of(table, laws).encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False


def local_results(root: Path, cells: Iterable[AnyCell]) -> dict[str, str]:
    """Fingerprints of local results; empty for a damaged one, which is in the way."""
    found = {}
    for cell in cells:
        try:
            path = root / layout.RESULT.format(base=cell.base, variant=cell.variant)
            found[cell.id] = parse_record(path.read_bytes(), where=str(path))["fingerprint"]
        except FileNotFoundError:
            continue
        except (OSError, DataFault):
            found[cell.id] = ""
    return found
