"""The three plots of a grid.  Each is drawn wide for a screen and narrow for a phone."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quantgrid.report import answers, fits, labels
from quantgrid.report.canvas import (
    INK,
    KINDS,
    PAPER,
    SOFT,
    Label,
    Size,
    budget_colours,
    key,
    label_right,
    name_ticks,
    note_above,
    panels,
    plain_ticks,
    svg_bytes,
    with_bars,
)
from quantgrid.report.laws import TRAINED_ENOUGH
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
UNQUANTISED: dict[str, Any] = {"color": SOFT, "linestyle": (0, (3, 2)), "linewidth": 1.2}
LANES = 0.8
"""Part of the room between two sizes that the lanes of methods and seeds share."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: the name that its file carries, its title, what to read in it, and who draws it.

    `label_part` is the part of the room for labels at the right that this plot needs.
    """

    name: str
    title: str
    caption: str
    draw: Draw
    label_part: float = 1.0


def svg(plot: Plot, grid: Grid, size: Size) -> bytes:
    """The plot as SVG, one panel for each family with a form; equal records give equal bytes."""
    families = grid.quantised_families()
    salt = f"{plot.name}-{size.width}"
    size = replace(size, label_width=round(plot.label_part * size.label_width))
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
        end = _best_line(axis, groups, colours[num_tokens])
        for method, alike in _by_method(groups).items():
            with_bars(
                axis,
                [mean_bits(cells) for cells in alike],
                [mean_loss(cells) for cells in alike],
                [_loss_spread(cells) for cells in alike],
                {"linestyle": "none", **_look(method, colours[num_tokens])},
            )
        if base := grid.seeds_of(family, num_tokens, "none"):
            axis.axhline(mean_loss(base), **UNQUANTISED | {"color": colours[num_tokens]})
            end = mean_loss(base) if end is None else end
        if end is not None:
            ends.append(Label(end, f"{labels.tokens(num_tokens)} tokens", colours[num_tokens]))
    axis.set_xlabel("bits per weight, scales included")
    axis.set_ylabel("validation loss (nats/token)")
    axis.margins(x=0.04)
    _method_key(axis, grid, size, unquantised=UNQUANTISED)
    label_right(axis, ends, size)


def _best_line(axis: "Axes", groups: Sequence[Cells], colour: str) -> float | None:
    """A line through the lowest loss at every number of bits; the loss where it ends."""
    lowest: dict[float, float] = {}
    for cells in groups:
        lowest[mean_bits(cells)] = min(mean_loss(cells), lowest.get(mean_bits(cells), math.inf))
    places = sorted(lowest)
    axis.plot(places, [lowest[bits] for bits in places], color=colour, linewidth=2.2)
    return lowest[places[-1]] if places else None


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
                [cells[0].num_tokens for cells in drawn],
                [each.mean for each in estimates],
                [each.se for each in estimates],
                {"linestyle": line, **_look(method, colour)},
            )
            ends.append(Label(estimates[-1].mean, names[variant], colour))
    _fitted_lines(axis, grid, family, colours)
    plain_ticks(axis.yaxis)
    name_ticks(axis, _budget_names(grid, family), size)
    axis.set_xlabel("training tokens (per parameter)")
    axis.set_ylabel("damage (nats/token)")
    _method_key(axis, grid, size)
    label_right(axis, ends, size)


def _fitted_lines(axis: "Axes", grid: Grid, family: str, colours: dict[str, str]) -> None:
    """The fitted damage law as thin lines, over the budgets of each form that it is of."""
    parameters = next(c.model.num_parameters for c in grid.cells if c.family == family)
    for each in fits.fitted(grid):
        for variant in each.variants:
            tokens = [t for t in grid.budgets(family, variant) if t >= TRAINED_ENOUGH]
            bits = float(grid.forms()[variant].bits or 0)
            values = [each.law.damage(bits, num_tokens, parameters) for num_tokens in tokens]
            axis.plot(tokens, values, color=colours[variant], linewidth=0.6, zorder=1)


def _budget_names(grid: Grid, family: str) -> dict[float, str]:
    """Tokens, and below them tokens per parameter in brackets."""
    some = {cell.num_tokens: cell for cell in grid.cells if cell.family == family}
    return {
        num_tokens: f"{labels.tokens(num_tokens)}\n({tokens_per_parameter(cell):.1f})"
        for num_tokens, cell in some.items()
    }


def _size_by_loss(axis: "Axes", grid: Grid, family: str, size: Size) -> None:
    sized = [c for c in grid.cells if c.family == family and c.is_averaged and total_bytes(c)]
    budgets = sorted({cell.num_tokens for cell in sized})
    colours = budget_colours(budgets)
    lanes = lanes_of(sized)
    ends: list[Label] = []
    for num_tokens in budgets:
        cells = [cell for cell in sized if cell.num_tokens == num_tokens]
        _size_marks(axis, cells, lanes, colours[num_tokens])
        if smallest := answers.find_smallest(cells):
            at = (lanes[smallest.cell], mean_loss([smallest.cell]))
            axis.plot(*at, marker="o", markersize=13, markerfacecolor="none", color=INK)
        widest = max(int(lanes[cell]) for cell in cells)
        end = mean_loss([cell for cell in cells if int(lanes[cell]) == widest])
        ends.append(Label(end, labels.tokens(num_tokens), colours[num_tokens]))
    slots = {int(lanes[cell]) + 0.5: cell for cell in sized}
    axis.set_xlim(-0.05, len(slots) + 0.05)
    name_ticks(axis, {x: _kilobytes(cell) for x, cell in slots.items()}, size)
    axis.set_xlabel("size of all weights (kB), steps not to scale")
    axis.set_ylabel("validation loss (nats/token)")
    _method_key(axis, grid, size, unquantised=_look("none", SOFT) | {"linestyle": "none"})
    note_above(axis, {x: _width_note(cell) for x, cell in slots.items()}, size)
    label_right(axis, ends, size)


def _kilobytes(cell: Measured) -> str:
    thousands = (total_bytes(cell) or 0) / 1000
    return f"{thousands:.1f}" if thousands < 1000 else labels.grouped(thousands)


def _width_note(cell: Measured) -> str:
    return "base" if cell.is_base else labels.width_label(cell.form)


def lanes_of(cells: Cells) -> dict[Measured, float]:
    """Where each cell stands on the x axis, so that none hides another.

    Each size has a room of width 1, and in it each form and seed a lane.
    """
    sizes = sorted({total_bytes(cell) or 0 for cell in cells})
    seeds = sorted({cell.seed for cell in cells})
    lanes = {}
    for slot, size_bytes in enumerate(sizes):
        alike = [cell for cell in cells if total_bytes(cell) == size_bytes]
        forms = list(dict.fromkeys((cell.form.method, cell.variant) for cell in alike))
        count = len(forms) * len(seeds)
        step = min(LANES / count, LANES / (2 * len(seeds)))
        for cell in alike:
            method = (cell.form.method, cell.variant)
            lane = forms.index(method) * len(seeds) + seeds.index(cell.seed)
            lanes[cell] = slot + 0.5 + (lane - (count - 1) / 2) * step
    return lanes


def _size_marks(axis: "Axes", cells: Cells, lanes: dict[Measured, float], colour: str) -> None:
    """One mark a cell, underlined when it is good enough."""
    from matplotlib.transforms import offset_copy

    small: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    for method in dict.fromkeys(cell.form.method for cell in cells):
        alike = [cell for cell in cells if cell.form.method == method]
        places = [(lanes[cell], mean_loss([cell])) for cell in alike]
        axis.plot(*zip(*places, strict=True), **_look(method, colour) | small)
    good = [(lanes[c], mean_loss([c])) for c in cells if answers.is_good_enough(c)]
    if good:
        below = offset_copy(axis.transData, axis.get_figure(root=True), y=-5.5, units="points")
        line: dict[str, Any] = {
            "marker": "_",
            "color": INK,
            "markeredgewidth": 1.5,
            "transform": below,
        }
        axis.plot(*zip(*good, strict=True), **small | line)


def _look(method: str, colour: str) -> dict[str, Any]:
    """How the points of a method look; rounding is hollow, so that its neighbours show through."""
    if method == "none":
        return {"color": colour, "marker": "x", "markeredgewidth": 1.4}
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


def _method_key(
    axis: "Axes", grid: Grid, size: Size, *, unquantised: dict[str, Any] | None = None
) -> None:
    methods = dict.fromkeys(f.method for f in grid.forms().values() if f.method != "none")
    looks = {method.upper(): _look(method, SOFT) | {"linestyle": "none"} for method in methods}
    if unquantised:
        looks["unquantised"] = unquantised
    key(axis, looks, size)


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
        "Validation loss of every form, one colour for each training budget, mean over seeds. The "
        "thick line joins the form that loses least at each width, the dashed one is the "
        "unquantised base. Bars are one standard deviation over seeds: they hold what training "
        "differs by from seed to seed. The errors in the tables are paired with each seed's own "
        "base, where that cancels, and are much smaller.",
        _loss_by_bits,
        label_part=0.75,
    ),
    Plot(
        "damage",
        "Damage against training tokens",
        "What a form loses against its own base, mean over seeds; bars are one standard error, "
        "paired over validation sequences. Both axes are logarithmic, so that a straight line is a "
        "power law; points at or below zero cannot be drawn there.",
        _damage_by_tokens,
    ),
    Plot(
        "size",
        "Size against loss",
        "Every cell: bytes of all its weights and its validation loss, one colour for each "
        "training budget (at the right, in tokens). Methods and seeds of one size stand beside "
        f"each other. Underlined cells lie within {answers.TOLERANCE_NATS:g} nats of their base; "
        "a ring is around the cell that the table of smallest cells names at each budget.",
        _size_by_loss,
        label_part=0.5,
    ),
)
