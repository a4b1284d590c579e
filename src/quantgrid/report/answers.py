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
    """How the damage of a form grows with tokens.

    `num_tokens` is the first budget whose damage exceeds that of the smallest budget (z > 3), and
    `growth` is by how much; both are None when no budget is.  `is_earliest` says that this is
    the second budget of the form: growth may start earlier than the grid can show.  `rise` is the
    damage at the largest budget minus that at the one before.  `fall` is the damage where it is
    highest minus that at the largest budget; None when the largest budget is the highest.
    """

    family: str
    variant: str
    smallest_tokens: int
    smallest: Estimate
    num_tokens: int | None
    growth: Estimate | None
    is_earliest: bool
    highest_tokens: int
    highest: Estimate
    rise: Estimate | None
    fall: Estimate | None
    largest_tokens: int
    largest: Estimate

    @property
    def course(self) -> str:
        """`grows` up to the largest budget, `falls` before it, or is `level` within noise."""
        if self.fall is not None and self.fall.holds:
            return "falls"
        is_rising = self.fall is None and self.rise is not None and self.rise.holds
        return "grows" if is_rising else "level"


@dataclass(frozen=True, slots=True)
class Inversion:
    """A form of fewer bits that loses less than one of more, at these budgets (z > 3).

    `margin` is the largest of what it loses less, `num_tokens` the budget of that.
    """

    family: str
    fewer: str
    more: str
    budgets: tuple[int, ...]
    num_tokens: int
    margin: Estimate


@dataclass(frozen=True, slots=True)
class Choice:
    """The smallest cell within the tolerance among some cells.

    `equals` are all cells within the tolerance that have its size, itself included.
    """

    cell: Measured
    size_bytes: int
    equals: tuple[Measured, ...]


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


def extremes(grid: Grid, family: str) -> set[str]:
    """The forms that lose least and most at each width.

    Asked at the largest budget of the width, and where the most of its forms were measured.
    """
    found: set[str] = set()
    for variants in _variants_by_width(grid):
        budgets = sorted({b for v in variants for b in grid.budgets(family, v)})
        rankings = [_ranking(grid, family, variants, num_tokens) for num_tokens in budgets]
        for ranking in (*rankings[-1:], max(rankings, key=len, default=[])):
            found |= {*ranking[:1], *ranking[-1:]}
    return found


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
    first, last = cells[budgets[0]], cells[budgets[-1]]
    damages = {num_tokens: damage(each) for num_tokens, each in cells.items()}
    highest = max(budgets, key=lambda num_tokens: damages[num_tokens].mean)
    grown = [(b, growth) for b in budgets[1:] if (growth := find_contrast(cells[b], first))]
    start, growth = next(((b, growth) for b, growth in grown if growth.holds), (None, None))
    return Onset(
        family=family,
        variant=variant,
        smallest_tokens=budgets[0],
        smallest=damages[budgets[0]],
        num_tokens=start,
        growth=growth,
        is_earliest=start == budgets[1],
        highest_tokens=highest,
        highest=damages[highest],
        rise=find_contrast(last, cells[budgets[-2]]),
        fall=None if highest == budgets[-1] else find_contrast(cells[highest], last),
        largest_tokens=budgets[-1],
        largest=damages[budgets[-1]],
    )


def inversions(grid: Grid, family: str) -> list[Inversion]:
    """Where fewer bits lose less than more, beyond doubt; the largest margins first."""
    forms = {v: form for v, form in grid.forms().items() if form.method != "none"}
    pairs = [
        (fewer, more)
        for more, wide in forms.items()
        for fewer, slim in forms.items()
        if bit_width(slim)[0] < bit_width(wide)[0] and bit_width(slim)[1:] == bit_width(wide)[1:]
    ]
    found = [_find_inversion(grid, family, fewer, more) for fewer, more in pairs]
    return sorted(filter(None, found), key=lambda each: -each.margin.mean)


def _find_inversion(grid: Grid, family: str, fewer: str, more: str) -> Inversion | None:
    margins = {
        num_tokens: margin
        for num_tokens in grid.budgets(family, fewer)
        if (
            margin := find_contrast(
                grid.seeds_of(family, num_tokens, more), grid.seeds_of(family, num_tokens, fewer)
            )
        )
        and margin.holds
    }
    if not margins:
        return None
    largest = max(margins, key=lambda num_tokens: margins[num_tokens].mean)
    return Inversion(family, fewer, more, tuple(margins), largest, margins[largest])


def find_smallest(cells: Iterable[Measured]) -> Choice | None:
    """The smallest quantised cell within `TOLERANCE_NATS` of its base; of equals, the lowest loss.

    Cells that may not be averaged, or whose size is not recorded, are no candidates.
    """
    sizes = {cell: total_bytes(cell) for cell in cells if is_good_enough(cell)}
    known = {cell: size for cell, size in sizes.items() if size is not None}
    if not known:
        return None
    fewest = min(known.values())
    equals = tuple(cell for cell, size in known.items() if size == fewest)
    return Choice(min(equals, key=lambda c: (c.losses.mean(), c.id)), fewest, equals)


def is_good_enough(cell: Measured) -> bool:
    """Whether a quantised cell may be averaged and loses no more than `TOLERANCE_NATS`."""
    return not cell.is_base and cell.is_averaged and cell.delta.mean() <= TOLERANCE_NATS


def smallest_by_budget(grid: Grid) -> list[tuple[str, int, Choice | None]]:
    """Family, budget and the smallest cell within the tolerance there, if any."""
    return [
        (family, num_tokens, find_smallest(cells_at(grid, family, num_tokens)))
        for family in grid.families()
        for num_tokens in grid.budgets(family)
    ]


def last_fit(grid: Grid, cell: Measured) -> list[Measured]:
    """Cells of this cell's form within the tolerance at the largest budget where any is."""
    alike = [c for c in grid.cells if (c.family, c.variant) == (cell.family, cell.variant)]
    fit = [each for each in alike if is_good_enough(each)]
    largest = max(each.num_tokens for each in fit)
    return [each for each in fit if each.num_tokens == largest]


def cells_at(grid: Grid, family: str, num_tokens: int) -> list[Measured]:
    """All cells of a family at one budget."""
    return [c for c in grid.cells if (c.family, c.num_tokens) == (family, num_tokens)]
