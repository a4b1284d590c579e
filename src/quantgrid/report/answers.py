"""The three questions a reader brings, answered from the records."""

from collections.abc import Iterable
from dataclasses import dataclass

from quantgrid.report.records import Grid, Measured, Width, bit_width
from quantgrid.report.stats import Estimate, damage, find_contrast
from quantgrid.report.table import total_bytes

TOLERANCE_NATS = 0.05
"""A quantised cell within this of its base counts as good enough (issue 2)."""


@dataclass(frozen=True, slots=True)
class Least:
    """The form that loses least at one bit width and budget, and by how much.

    `margin` is the damage of the next best form at this width minus its own; None when the grid
    holds no other form of this width.  `num_best` counts the budgets at which it is the best.
    """

    family: str
    num_tokens: int
    variant: str
    damage: Estimate
    runner_up: str | None
    margin: Estimate | None
    num_best: int
    num_budgets: int


@dataclass(frozen=True, slots=True)
class Onset:
    """Where the damage of a form starts to grow: the first budget above the smallest, z > 3.

    `num_tokens` and `growth` are None when no budget is.
    """

    family: str
    variant: str
    smallest_tokens: int
    smallest: Estimate
    num_tokens: int | None
    growth: Estimate | None
    largest_tokens: int
    largest: Estimate


def least_by_width(grid: Grid) -> list[Least]:
    """For every family and bit width, the form that loses least at the largest budget."""
    found = []
    for family in grid.families():
        for variants in _variants_by_width(grid):
            budgets = sorted({b for v in variants for b in grid.budgets(family, v)})
            if budgets:
                found.append(_least(grid, family, variants, budgets))
    return found


def _least(grid: Grid, family: str, variants: list[str], budgets: list[int]) -> Least:
    rankings = [_ranking(grid, family, variants, num_tokens) for num_tokens in budgets]
    last = rankings[-1]
    best, runner_up = last[0], last[1] if len(last) > 1 else None
    at = grid.seeds_of(family, budgets[-1], best)
    margin = runner_up and find_contrast(grid.seeds_of(family, budgets[-1], runner_up), at)
    return Least(
        family=family,
        num_tokens=budgets[-1],
        variant=best,
        damage=damage(at),
        runner_up=runner_up,
        margin=margin or None,
        num_best=sum(1 for ranking in rankings if ranking[0] == best),
        num_budgets=len(budgets),
    )


def _ranking(grid: Grid, family: str, variants: list[str], num_tokens: int) -> list[str]:
    """Variants that were averaged at a budget, least damage first."""
    means = {
        variant: damage(cells).mean
        for variant in variants
        if (cells := grid.seeds_of(family, num_tokens, variant))
    }
    return sorted(means, key=lambda variant: (means[variant], variant))


def _variants_by_width(grid: Grid) -> list[list[str]]:
    """Variants of equal bit width together, wide ones first; the base is not among them."""
    by_width: dict[Width, list[str]] = {}
    for variant, form in grid.forms().items():
        if form.method != "none":
            by_width.setdefault(bit_width(form), []).append(variant)
    return list(by_width.values())


def onsets(grid: Grid) -> list[Onset]:
    """For every family and form with two budgets or more, where its damage starts to grow."""
    return [
        _onset(grid, family, variant, budgets)
        for family in grid.families()
        for variant, form in grid.forms().items()
        if form.method != "none" and len(budgets := grid.budgets(family, variant)) > 1
    ]


def _onset(grid: Grid, family: str, variant: str, budgets: list[int]) -> Onset:
    cells = {num_tokens: grid.seeds_of(family, num_tokens, variant) for num_tokens in budgets}
    first = cells[budgets[0]]
    grown = [(b, growth) for b in budgets[1:] if (growth := find_contrast(cells[b], first))]
    onset = next(((b, growth) for b, growth in grown if growth.holds), (None, None))
    return Onset(
        family=family,
        variant=variant,
        smallest_tokens=budgets[0],
        smallest=damage(first),
        num_tokens=onset[0],
        growth=onset[1],
        largest_tokens=budgets[-1],
        largest=damage(cells[budgets[-1]]),
    )


def find_smallest(cells: Iterable[Measured]) -> Measured | None:
    """The smallest quantised cell within `TOLERANCE_NATS` of its base; of equals, the lowest loss.

    Cells that may not be averaged, or whose size is not recorded, are no candidates.
    """
    sizes = {cell.id: total_bytes(cell) for cell in cells if is_good_enough(cell)}
    candidates = [cell for cell in cells if sizes.get(cell.id) is not None]
    return min(
        candidates, key=lambda cell: (sizes[cell.id], cell.losses.mean(), cell.id), default=None
    )


def is_good_enough(cell: Measured) -> bool:
    """Whether a quantised cell may be averaged and loses no more than `TOLERANCE_NATS`."""
    return not cell.is_base and cell.is_averaged and cell.delta.mean() <= TOLERANCE_NATS


def smallest_by_budget(grid: Grid) -> list[tuple[str, int, Measured | None]]:
    """Family, budget and the smallest cell within the tolerance there, if any."""
    return [
        (family, num_tokens, find_smallest(_cells_at(grid, family, num_tokens)))
        for family in grid.families()
        for num_tokens in grid.budgets(family)
    ]


def _cells_at(grid: Grid, family: str, num_tokens: int) -> list[Measured]:
    return [c for c in grid.cells if (c.family, c.num_tokens) == (family, num_tokens)]
