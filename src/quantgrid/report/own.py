"""Cells with a program of their own: rows of the table, sheets of the page.

Axes are columns, and so are the results by the names that the program gives them.  No law speaks of
them and nothing is averaged: only their author knows what their numbers mean.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantgrid.archive.record import Record
from quantgrid.own_script import VARIANT, written
from quantgrid.report.records import Wanted, read_records
from quantgrid.report.sections import ID, Entry, Head, Sheet
from quantgrid.report.table import Lines
from quantgrid.verdicts import Word, reason_of, word_of

LEADING = ("cell", "base", "variant", "block")
TRAILING = ("wall_s", "cpu_s", "platform", "device", "verdict", "reason", "fingerprint")
TAKEN = frozenset({*LEADING, "seed", *TRAILING})
"""Columns that every table has; a result of such a name is shown as `result_<name>`."""

NOTHING_TO_PLOT = b"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 60" width="480" height="60">
<text x="12" y="36" font-family="sans-serif" font-size="14">No quantised forms to plot here.</text>
</svg>
"""


@dataclass(frozen=True, slots=True)
class OwnRow:
    """A finished cell with a program of its own."""

    id: str
    record: Record

    @property
    def spec(self) -> Mapping[str, Any]:
        """What was declared."""
        spec: Mapping[str, Any] = self.record["spec"]["cell"]
        return spec

    @property
    def results(self) -> dict[str, str]:
        """Column -> text of each number."""
        found = self.record["results"].items()
        is_left_out = word_of(self.record) == Word.INVALID
        return {
            f"result_{n}" if n in TAKEN else n: "" if is_left_out else written(value)
            for n, value in found
        }

    @property
    def axes(self) -> dict[str, str]:
        """Column -> text of each axis."""
        return {name: written(value) for name, value in self.spec["axes"].items()}

    @property
    def fields(self) -> dict[str, str]:
        """All columns of its row."""
        base, _, variant = self.id.partition("/")
        record, work = self.record, self.record["work"]
        return {
            "cell": self.id,
            "base": base,
            "variant": variant,
            "block": self.spec["block"],
            **self.axes,
            "seed": str(self.spec["seed"]),
            **self.results,
            "wall_s": f"{work['wall_s']:.3f}",
            "cpu_s": f"{work['cpu_s']:.3f}",
            "platform": record["platform"]["name"],
            "device": record["platform"]["device"],
            "verdict": word_of(record),
            "reason": reason_of(record),
            "fingerprint": record["fingerprint"],
        }


def split(wanted: Wanted) -> tuple[Wanted, Wanted]:
    """What is wanted of models and their forms, and of programs of their own."""
    own = {cell: fp for cell, fp in wanted.cells.items() if cell.endswith(f"/{VARIANT}")}
    models = {cell: fp for cell, fp in wanted.cells.items() if cell not in own}
    return (
        Wanted(wanted.grid, models, wanted.archive),
        Wanted(wanted.grid, own, wanted.archive),
    )


def read_rows(wanted: Wanted, results: Path) -> list[OwnRow]:
    """Read and verify the record of every wanted cell.

    Raises:
        Refusal: names every cell that is missing, damaged or stale.
    """
    records = read_records(wanted, results, _require_complete)
    return [OwnRow(cell, records[cell]) for cell in wanted.cells]


def _require_complete(record: Record) -> None:
    OwnRow(record["cell"], record).fields  # noqa: B018 - a field that lacks raises


def joined(models: Lines, rows: Sequence[OwnRow]) -> Lines:
    """The table of a grid: models first, own cells after, with the columns of both."""
    if not rows:
        return models
    fields = [dict(zip(models.columns, row, strict=True)) for row in models.rows]
    columns = list(models.columns) if fields else _columns(rows)
    fields += [row.fields for row in rows]
    columns = list(dict.fromkeys([*columns, *(name for each in fields for name in each)]))
    return Lines(columns, [[each.get(name, "") for name in columns] for each in fields])


def _columns(rows: Sequence[OwnRow]) -> list[str]:
    """Axes of all blocks together, then all results."""
    axes = [name for row in rows for name in row.axes]
    results = [name for row in rows for name in row.results]
    return [*LEADING, *axes, "seed", *results, *TRAILING]


def sheets(rows: Sequence[OwnRow]) -> list[Sheet]:
    """A sheet for each block: axes, seed, results."""
    return [
        _sheet(block, [row for row in rows if row.spec["block"] == block])
        for block in dict.fromkeys(row.spec["block"] for row in rows)
    ]


def _sheet(block: str, rows: Sequence[OwnRow]) -> Sheet:
    axes = [*dict.fromkeys(name for row in rows for name in row.axes), "seed"]
    results = list(dict.fromkeys(name for row in rows for name in row.results))
    heads = (Head("cell", is_number=False), *(Head(name) for name in [*axes, *results]))
    return Sheet(block, heads, [_entries(row, axes, results) for row in rows])


def _entries(row: OwnRow, axes: Sequence[str], results: Sequence[str]) -> list[Entry]:
    shown = {**row.fields, **{name: _short(text) for name, text in row.results.items()}}
    return [Entry(row.id, ID), *(Entry(shown.get(name, "")) for name in [*axes, *results])]


def _short(text: str) -> str:
    """Six digits are enough for eyes; the table has all."""
    try:
        return text if text.lstrip("-").isdigit() else f"{float(text):.6g}"
    except ValueError:
        return text


def verdict_counts(rows: Sequence[OwnRow]) -> dict[str, int]:
    """How many cells have which verdict."""
    return dict(Counter(word_of(row.record) for row in rows))


def facts(rows: Sequence[OwnRow]) -> list[tuple[str, list[str]]]:
    """Where the numbers come from, each value once."""
    return [
        ("programs", _once(_program(row) for row in rows)),
        ("records of programs", [f"{len(rows)}, each with a digest that matches"]),
        ("platform of programs", _once(_place(row.record) for row in rows)),
    ]


def _program(row: OwnRow) -> str:
    return f"{row.spec['program']}, digest {row.record['science'][:12]}"


def _place(record: Record) -> str:
    place = record["platform"]
    packages = {"python": place["python"], **place["packages"]}
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return f"{place['name']}, {place['host']}, {place['device']}, {versions}"


def _once(values: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(values))
