"""The three plots of a grid.  Each is drawn wide for a screen and narrow for a phone."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quantgrid.report import answers, labels
from quantgrid.report.canvas import (
    INK,
    KINDS,
    PAPER,
    Label,
    Size,
    budget_colours,
    key,
    label_right,
    note_above,
    panels,
    plain_ticks,
    svg_bytes,
    with_bars,
)
from quantgrid.report.records import Grid, Measured, bit_width
from quantgrid.report.stats import damage, spread
from quantgrid.report.table import size_of, tokens_per_parameter, total_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cells = Sequence[Measured]
Draw = Callable[["Axes", Grid, str, Size], None]

METHOD_MARKS = {"rtn": "o", "gptq": "s", "qat": "^"}
METHOD_LINES = {"rtn": (0, (4, 1.6)), "gptq": "solid", "qat": (0, (1, 1.2))}
OTHER_MARK, OTHER_LINE = "D", "dashdot"
HOLLOW = frozenset({"rtn"})


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: the name that its file carries, its title, what to read in it, and who draws it."""

    name: str
    title: str
    caption: str
    draw: Draw


def svg(plot: Plot, grid: Grid, size: Size) -> bytes:
    """The plot as SVG, one panel for each family; equal records give equal bytes."""
    families = grid.families()
    salt = f"{plot.name}-{size.width}"
    titles = list(labels.family_labels(families).values())
    with panels(titles, size, salt) as (figure, axes):
        for axis, family in zip(axes, families, strict=True):
            plot.draw(axis, grid, family, size)
        return svg_bytes(figure, title=f"{plot.title}, grid {grid.name}")


def _loss_by_bits(axis: "Axes", grid: Grid, family: str, size: Size) -> None:
    budgets = grid.budgets(family)
    colours = budget_colours(budgets)
    ends = []
    for num_tokens in budgets:
        groups = [cells for cells in _quantised(grid, family, num_tokens) if mean_bits(cells)]
        _best_line(axis, groups, colours[num_tokens])
        for method, alike in _by_method(groups).items():
            with_bars(
                axis,
                [mean_bits(cells) for cells in alike],
                [mean_loss(cells) for cells in alike],
                [_loss_spread(cells) for cells in alike],
                {"linestyle": "none", **_look(method, colours[num_tokens])},
            )
        if base := grid.seeds_of(family, num_tokens, "none"):
            axis.axhline(mean_loss(base), color=colours[num_tokens], linewidth=1, alpha=0.45)
            text = f"{labels.tokens(num_tokens)} tokens"
            ends.append(Label(mean_loss(base), text, colours[num_tokens]))
    axis.set_xlabel("bits per weight, scales included")
    axis.set_ylabel("validation loss (nats/token)")
    axis.margins(x=0.06)
    _method_key(axis, grid, size)
    label_right(axis, ends, size)


def _best_line(axis: "Axes", groups: Sequence[Cells], colour: str) -> None:
    """A line through the lowest loss at every number of bits."""
    lowest: dict[float, float] = {}
    for cells in groups:
        lowest[mean_bits(cells)] = min(mean_loss(cells), lowest.get(mean_bits(cells), math.inf))
    places = sorted(lowest)
    axis.plot(places, [lowest[bits] for bits in places], color=colour)


def _damage_by_tokens(axis: "Axes", grid: Grid, family: str, size: Size) -> None:
    names, colours = labels.form_labels(grid.forms()), _width_colours(grid)
    ends = []
    axis.set(xscale="log", yscale="log")
    for variant, colour in colours.items():
        method = grid.forms()[variant].method
        seen = [grid.seeds_of(family, b, variant) for b in grid.budgets(family, variant)]
        drawn = [cells for cells in seen if damage(cells).mean > 0]
        if drawn:
            estimates = [damage(cells) for cells in drawn]
            line = METHOD_LINES.get(method, OTHER_LINE)
            with_bars(
                axis,
                [float(np.mean([tokens_per_parameter(cell) for cell in cells])) for cells in drawn],
                [each.mean for each in estimates],
                [each.se for each in estimates],
                {"linestyle": line, **_look(method, colour)},
            )
            ends.append(Label(estimates[-1].mean, names[variant], colour))
    plain_ticks(axis.xaxis)
    plain_ticks(axis.yaxis)
    axis.set_xlabel("tokens per parameter")
    axis.set_ylabel("damage (nats/token)")
    _method_key(axis, grid, size)
    label_right(axis, ends, size)


def _size_by_loss(axis: "Axes", grid: Grid, family: str, size: Size) -> None:
    budgets = grid.budgets(family)
    colours = budget_colours(budgets)
    ends: list[Label] = []
    notes: dict[float, str] = {}
    for num_tokens in budgets:
        cells = [c for c in grid.cells if (c.family, c.num_tokens) == (family, num_tokens)]
        sized = [cell for cell in cells if cell.is_averaged and total_bytes(cell)]
        _size_marks(axis, sized, colours[num_tokens])
        if smallest := answers.find_smallest(sized):
            axis.plot(
                *_at(smallest.cell), marker="o", markersize=13, markerfacecolor="none", color=INK
            )
        if sized:
            lowest = min(mean_loss([cell]) for cell in sized)
            text = f"{labels.tokens(num_tokens)} tokens"
            ends.append(Label(lowest, text, colours[num_tokens]))
        notes |= {_at(cell)[0]: labels.width_label(cell.form) for cell in sized}
    axis.set_xscale("log")
    axis.margins(x=0.07)
    plain_ticks(axis.xaxis)
    axis.set_xlabel("size of all weights (kB)")
    axis.set_ylabel("validation loss (nats/token)")
    _method_key(axis, grid, size)
    note_above(axis, notes, size)
    label_right(axis, ends, size)


def _size_marks(axis: "Axes", cells: Sequence[Measured], colour: str) -> None:
    """One mark a cell: full when it is good enough, a bar for a base."""
    alike = defaultdict(list)
    for cell in cells:
        alike[cell.form.method, answers.is_good_enough(cell)].append(_at(cell))
    for (method, good), places in alike.items():
        look = _look(method, colour) | {"markerfacecolor": colour if good else PAPER}
        axis.plot(*zip(*places, strict=True), linestyle="none", alpha=0.85, **look)


def _at(cell: Measured) -> tuple[float, float]:
    """Thousands of bytes and loss."""
    return (total_bytes(cell) or 0) / 1000, mean_loss([cell])


def _look(method: str, colour: str) -> dict[str, Any]:
    """How the points of a method look; rounding is hollow, so that its neighbours show through."""
    if method == "none":
        return {"color": colour, "marker": "_", "markersize": 11, "markeredgewidth": 1.6}
    return {
        "color": colour,
        "marker": METHOD_MARKS.get(method, OTHER_MARK),
        "markerfacecolor": PAPER if method in HOLLOW else colour,
    }


def _quantised(grid: Grid, family: str, num_tokens: int) -> list[Cells]:
    """The cells of every quantised form at a budget, together by form."""
    groups = [
        grid.seeds_of(family, num_tokens, variant)
        for variant, form in grid.forms().items()
        if form.method != "none"
    ]
    return [cells for cells in groups if cells]


def _by_method(groups: Sequence[Cells]) -> dict[str, list[Cells]]:
    found = defaultdict(list)
    for cells in groups:
        found[cells[0].form.method].append(cells)
    return found


def _method_key(axis: "Axes", grid: Grid, size: Size) -> None:
    methods = dict.fromkeys(f.method for f in grid.forms().values() if f.method != "none")
    marks = {method.upper(): METHOD_MARKS.get(method, OTHER_MARK) for method in methods}
    key(axis, marks, {method.upper() for method in HOLLOW}, size)


def _width_colours(grid: Grid) -> dict[str, str]:
    """One colour a bit width, by variant."""
    forms = {v: form for v, form in grid.forms().items() if form.method != "none"}
    widths = sorted({bit_width(form) for form in forms.values()})
    return {
        variant: KINDS[widths.index(bit_width(form)) % len(KINDS)]
        for variant, form in forms.items()
    }


def mean_bits(cells: Cells) -> float:
    """Mean bits per weight; 0 when a record does not say."""
    known = [size_of(cell, "bits_per_weight") or 0 for cell in cells]
    return float(np.mean(known))


def mean_loss(cells: Cells) -> float:
    """Validation loss in nats per token, mean over cells."""
    return float(np.mean([cell.losses.mean() for cell in cells]))


def _loss_spread(cells: Cells) -> float:
    return spread([float(cell.losses.mean()) for cell in cells])


PLOTS = (
    Plot(
        "bits",
        "Loss against bits per weight",
        "Validation loss of every form, one colour a training budget, mean over seeds; bars are "
        "one standard deviation over seeds. A line joins the form that loses least at each width; "
        "the thin level line is the unquantised base.",
        _loss_by_bits,
    ),
    Plot(
        "damage",
        "Damage against tokens per parameter",
        "What a form loses against its own base, mean over seeds; bars are one standard error, "
        "paired over validation sequences. Both axes are logarithmic, so that a straight line is a "
        "power law; points at or below zero cannot be drawn there.",
        _damage_by_tokens,
    ),
    Plot(
        "size",
        "Size against loss",
        "Every cell: bytes of all its weights and its validation loss, one colour a training "
        "budget; the bar far right is the unquantised base. Full marks lie within "
        f"{answers.TOLERANCE_NATS:g} nats of their base, and a ring is around the smallest of "
        "those at each budget.",
        _size_by_loss,
    ),
)
