"""Generated tables of documents: what the ledger knows of a grid, in Markdown.

Only the ledger is their source, which git tracks, so that they are the same in every clone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from quantgrid.claims.known import Known, Run
from quantgrid.errors import ConfigRefusal

_VERDICTS = ("VALID", "SUSPECT", "INVALID", "unjudged")


class Wanted(NamedTuple):
    """What the comment of a table asks for.

    Args:
        grid: Its name.
        by: `form` (one line a form) or `cell` (one line a cell).
        select: A part of the grid; empty for all.
    """

    grid: str
    by: str
    select: str


def parse(words: str, where: str) -> Wanted:
    """What `<!-- table: GRID [by=form|cell] [select="EXPR"] -->` asks for.

    Raises:
        ConfigRefusal: for words that ask for nothing.
    """
    name, _, rest = words.strip().partition(" ")
    rest, mark, select = rest.partition("select=")
    by = rest.strip() or "by=form"
    if not name or by not in {"by=form", "by=cell"} or (mark and not _quoted(select)):
        raise ConfigRefusal(
            "a generated table that asks for nothing",
            expected='<!-- table: GRID [by=form or by=cell] [select="EXPR"] -->',
            seen=f"<!-- table: {words} -->",
            where=where,
        )
    return Wanted(name, by.removeprefix("by="), select.strip()[1:-1])


def _quoted(text: str) -> bool:
    text = text.strip()
    return len(text) > 2 and text[0] == text[-1] == '"'


def text(wanted: Wanted, cells: Iterable[str], known: Known) -> str:
    """The table of some cells of a grid, in their order."""
    runs = {cell: _in_ledger(known, wanted.grid, cell) for cell in cells}
    stale = {
        cell
        for cell, run in runs.items()
        if run is None and any(each.line for each in known.runs.get(cell, ()))
    }
    rows = _by_cell(runs, stale) if wanted.by == "cell" else _by_form(runs, stale)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _in_ledger(known: Known, grid: str, cell: str) -> Run | None:
    run = known.current(grid, cell)
    return run if run and run.line else None


def _by_cell(runs: Mapping[str, Run | None], stale: set[str]) -> Iterator[tuple[str, ...]]:
    yield ("cell", "state", "verdict", "where", "when")
    yield ("---",) * 5
    for cell, run in runs.items():
        if run:
            yield (cell, "done", run.verdict, run.where, run.when)
        else:
            yield (cell, "stale" if cell in stale else "not in the ledger", "", "", "")


def _by_form(runs: Mapping[str, Run | None], stale: set[str]) -> Iterator[tuple[str, ...]]:
    yield ("form", "cells", "done", "stale", "not in the ledger", *_VERDICTS, "paid USD")
    yield ("---", *("---:",) * 9)
    forms: dict[str, dict[str, Run | None]] = {}
    for cell, run in runs.items():
        forms.setdefault(cell.rpartition("/")[2], {})[cell] = run
    for form, own in forms.items():
        yield (form, *_counts(own, stale))
    yield ("all", *_counts(runs, stale))


def _counts(runs: Mapping[str, Run | None], stale: set[str]) -> Iterator[str]:
    done = [run for run in runs.values() if run]
    old = len(stale & runs.keys())
    yield from map(str, (len(runs), len(done), old, len(runs) - len(done) - old))
    yield from (str(sum(run.verdict == verdict for run in done)) for verdict in _VERDICTS)
    paid = [run.cost_usd for run in done if run.cost_usd is not None]
    yield f"{sum(paid):.2f}" if paid else ""


def unfolded(wanted: Wanted, cells: Iterable[str], known: Known) -> list[str]:
    """Cells that a table calls not in the ledger, and whose current result the archive has."""
    runs = ((cell, known.current(wanted.grid, cell)) for cell in cells)
    return [cell for cell, run in runs if run and not run.line]


Choose = Callable[[str, str], tuple[str, ...]]
"""From a grid's name and an expression to the ids of the chosen cells."""
