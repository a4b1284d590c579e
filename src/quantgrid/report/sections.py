"""What each section of the page shows, as sheets of text that a screen and a phone can lay out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from quantgrid.report import answers, labels, prose
from quantgrid.report import laws as published
from quantgrid.report.records import Grid
from quantgrid.report.stats import Z_THRESHOLD, Estimate, damage, mean_loss
from quantgrid.report.table import mean_bits

if TYPE_CHECKING:
    import pandas as pd

MOST_INVERSIONS = 8
VAGUE, ID = "vague", "id"


@dataclass(frozen=True, slots=True)
class Head:
    """The heading of a column, and whether numbers stand under it."""

    text: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of a sheet; `style` is `vague` for what is not told from zero, `id` for an id."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A small table; the first entry of a row is its heading."""

    label: str
    heads: tuple[Head, ...]
    rows: list[list[Entry]]

    @property
    def has_vague(self) -> bool:
        """Whether any entry is not told from zero."""
        return any(entry.style == VAGUE for row in self.rows for entry in row)


@dataclass(frozen=True, slots=True)
class Named:
    """A grid with the short names of its forms and families."""

    grid: Grid
    forms: Mapping[str, str]
    families: Mapping[str, str]

    def titled(self, family: str, text: str) -> str:
        """A row's heading, with its model when the grid has several."""
        return f"{self.families[family]}: {text}" if len(self.families) > 1 else text


def named(grid: Grid) -> Named:
    """The grid with its short names."""
    forms = labels.form_labels(grid.forms())
    return Named(grid, forms, labels.family_labels(grid.families()))


def why_empty(grid: Grid) -> str:
    """What stands where a sheet has no rows."""
    if all(cell.is_base for cell in grid.cells if cell.is_averaged):
        return "Nothing to show: of the VALID cells, which averages take alone, none is of a form."
    return "Nothing to show: this compares several budgets or forms, and the VALID cells have one."


def least(of: Named) -> dict[str, Any]:
    """Which form loses least at each bit width: sentences for the largest model, a sheet."""
    found = answers.least_by_width(of.grid)
    family = of.grid.quantised_families()[-1]
    heads = (
        Head("width", is_number=False),
        Head("loses least", is_number=False),
        Head("bits per weight"),
        Head("damage"),
        Head("next best", is_number=False),
        Head("loses more by"),
        Head("z"),
        Head("seeds agree"),
        Head("least at"),
    )
    rows = [_least_row(each, of) for each in found]
    theirs = [each for each in found if each.family == family]
    return {
        "sentences": prose.least_sentences(theirs, of.grid, of.forms),
        "sheet": Sheet("The form that loses least at each bit width", heads, rows),
    }


def _least_row(each: answers.Least, of: Named) -> list[Entry]:
    width = labels.width_label(of.grid.forms()[each.variant])
    best = f"{each.num_best} of {each.num_budgets} budgets" if each.runner_up else ""
    return _entries(
        of.titled(each.family, width),
        of.forms[each.variant],
        _real_bits(of.grid, each.family, each.variant),
        labels.with_error(each.damage),
        of.forms[each.runner_up] if each.runner_up else "no other form",
        *_estimate(each.margin),
        best,
    )


def more_than_bits(of: Named) -> dict[str, Any]:
    """Where fewer bits lose less than more, for the largest model."""
    found = answers.inversions(of.grid, of.grid.quantised_families()[-1])
    return {
        "sentences": prose.inversion_sentences(found[:MOST_INVERSIONS], of.forms),
        "num_more": max(len(found) - MOST_INVERSIONS, 0),
    }


def growth(of: Named) -> dict[str, Any]:
    """Where damage starts to grow and what it does after: sentences and a sheet."""
    found = answers.onsets(of.grid)
    family = of.grid.quantised_families()[-1]
    heads = (
        Head("form", is_number=False),
        Head(f"damage at {_shared(o.smallest_tokens for o in found) or 'the smallest budget'}"),
        Head("grows from"),
        Head("by"),
        Head("z"),
        Head("seeds agree"),
        Head(f"damage at {_shared(o.largest_tokens for o in found) or 'the largest budget'}"),
        Head("course", is_number=False),
    )
    rows = [_onset_row(each, of) for each in found]
    return {
        "sentences": prose.onset_sentences([o for o in found if o.family == family], of.forms),
        "sheet": Sheet("Where the damage of each form starts to grow", heads, rows),
    }


def _shared(budgets: Iterable[int]) -> str:
    """The budget that all share; empty when they differ."""
    different = set(budgets)
    return labels.tokens(different.pop()) if len(different) == 1 else ""


def _onset_row(each: answers.Onset, of: Named) -> list[Entry]:
    start = "does not"
    if each.num_tokens is not None:
        start = f"{labels.tokens(each.num_tokens)}{' or earlier' if each.is_earliest else ''}"
    return _entries(
        of.titled(each.family, of.forms[each.variant]),
        labels.with_error(each.smallest),
        start,
        *_estimate(each.growth),
        labels.with_error(each.largest),
        prose.course_cell(each),
    )


def smallest(of: Named) -> dict[str, Any]:
    """The smallest cell within the tolerance: sentences for the whole grid, one row a budget."""
    heads = (
        Head("tokens", is_number=False),
        Head("form", is_number=False),
        Head("bytes"),
        Head("cells of this size"),
        Head("the one of lowest loss", is_number=False),
        Head("its damage"),
        Head("its loss"),
    )
    rows = [
        _smallest_row(of, family, num_tokens, choice)
        for family, num_tokens, choice in answers.smallest_by_budget(of.grid)
    ]
    choice = answers.find_smallest(of.grid.cells)
    return {
        "sentences": prose.smallest_sentences(choice, of.grid, of.forms),
        "sheet": Sheet("The smallest cell within the tolerance at each budget", heads, rows),
    }


def _smallest_row(
    of: Named, family: str, num_tokens: int, choice: answers.Choice | None
) -> list[Entry]:
    title = of.titled(family, labels.tokens(num_tokens))
    if choice is None:
        return _entries(title, "none", "", "", "", "", "")
    cell = choice.cell
    return [
        *_entries(
            title,
            of.forms[cell.variant],
            labels.grouped(choice.size_bytes),
            str(len(choice.equals)),
        ),
        Entry(cell.id, ID),
        *_entries(labels.with_error(damage([cell])), labels.nats(float(cell.losses.mean()))),
    ]


def forms(of: Named) -> list[dict[str, Any]]:
    """For each family a sheet: mean damage of every form at every budget, and the base's loss."""
    return [
        {
            "family": of.families[family] if len(of.families) > 1 else "",
            "sheet": _forms_sheet(of, family),
        }
        for family in of.grid.families()
    ]


def _forms_sheet(of: Named, family: str) -> Sheet:
    grid, budgets = of.grid, of.grid.budgets(family)
    columns = [Head(labels.tokens(num_tokens)) for num_tokens in budgets]
    heads = (Head("form", is_number=False), Head("bits per weight"), *columns)
    rows = [
        [
            *_entries(of.forms[variant], _real_bits(grid, family, variant)),
            *(_mean(grid, family, num_tokens, variant) for num_tokens in budgets),
        ]
        for variant, form in grid.forms().items()
        if form.method != "none" and grid.budgets(family, variant)
    ]
    bases = [grid.seeds_of(family, num_tokens, "none") for num_tokens in budgets]
    losses = [labels.nats(mean_loss(cells)) if cells else "" for cells in bases]
    rows.append(_entries("base: its loss", _real_bits(grid, family, "none"), *losses))
    return Sheet(f"Damage of every form, {of.families[family]}", heads, rows)


def _mean(grid: Grid, family: str, num_tokens: int, variant: str) -> Entry:
    cells = grid.seeds_of(family, num_tokens, variant)
    if not cells:
        return Entry("")
    value = damage(cells)
    return Entry(labels.with_error(value), "" if abs(value.z) > Z_THRESHOLD else VAGUE)


def laws(table: "pd.DataFrame", of: Named) -> dict[str, Any]:
    """The outcomes of each law together, and how many laws hold throughout."""
    read = [{str(name): row[name] for name in row} for row in table.to_dict("records")]
    groups = [_law(law, list(rows), of) for law, rows in groupby(read, itemgetter("law"))]
    floors = [int(row["tokens"]) for row in read]
    return {
        "groups": groups,
        "num_laws": len(groups),
        "num_whole": sum(1 for group in groups if group["is_whole"]),
        "num_rows": len(read),
        "num_holding": sum(1 for row in read if row["holds"] == "yes"),
        "from_tokens": labels.tokens(min(floors, default=0)),
        "floor": labels.tokens(published.TRAINED_ENOUGH),
    }


def _law(law: str, rows: Sequence[dict[str, str]], of: Named) -> dict[str, Any]:
    return {
        "law": law,
        "claim": _claim(rows[0], of.forms),
        "source": published.source_of(law),
        "rows": [_law_row(row, of) for row in rows],
        "is_whole": all(row["holds"] == "yes" for row in rows),
    }


def _claim(row: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Whose damage is taken from whose."""
    left, _, last = row["left"].partition(" at ")
    right, _, first = row["right"].partition(" at ")
    if first:
        ends = [labels.tokens(float(each)) for each in (last, first)]
        return f"damage of {names.get(left, left)} at {ends[0]} minus that at {ends[1]} tokens"
    return f"damage of {names.get(left, left)} minus that of {names.get(right, right)}"


def _law_row(row: Mapping[str, str], of: Named) -> dict[str, str]:
    return {
        "tokens": of.titled(row["family"], labels.tokens(float(row["tokens"]))),
        "value": labels.plus_minus(float(row["difference"]), float(row["se"])),
        "z": labels.z(float(row["z"])),
        "seeds": f"{row['agreeing']} of {row['seeds']}",
        "holds": row["holds"],
    }


def _real_bits(grid: Grid, family: str, variant: str) -> str:
    cells = [c for c in grid.cells if (c.family, c.variant) == (family, variant)]
    bits = mean_bits(cells)
    return labels.real_bits(bits) if bits else ""


def _estimate(value: Estimate | None) -> tuple[str, str, str]:
    if value is None:
        return "", "", ""
    seeds = f"{value.num_agreeing} of {len(value.by_seed)}"
    return labels.with_error(value), labels.z(value.z), seeds


def _entries(*texts: str) -> list[Entry]:
    return [Entry(text) for text in texts]
