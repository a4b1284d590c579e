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

_HEAD_BYTES = 4096


def publish_wanted(path: Path, grid: str, cells: Mapping[str, str], table: Path) -> None:
    """Write which cells a table must show, only when that changed.

    A table that shows other cells, as after a copy over it, is named: Snakemake goes by content
    where times mislead, and makes the table again.
    """
    wanted = {"grid": grid, "cells": dict(cells)}
    if shown_cells(table) not in (None, cells):
        wanted["instead_of"] = digest_file(table)
    # in the order of the grid, which the table keeps
    data = (json.dumps(wanted, indent=2) + "\n").encode()
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    atomic.publish(path, data)


def shown_cells(table: Path) -> Mapping[str, str] | None:
    """The cells of a table with their fingerprints; None when there is no readable table."""
    try:
        with table.open(newline="") as file:
            return {row["cell"]: row["fingerprint"] for row in csv.DictReader(file)}
    except (OSError, KeyError, UnicodeDecodeError):
        return None


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
