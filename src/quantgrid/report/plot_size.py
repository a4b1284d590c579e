"""The plot of size against loss, with a mark for every cell."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from quantgrid.report import answers, labels, looks
from quantgrid.report.canvas import INK, budget_colours
from quantgrid.report.lettering import MANY_TICKS, Label, Lettering
from quantgrid.report.records import Grid, Measured
from quantgrid.report.stats import mean_loss
from quantgrid.report.table import total_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cells = Sequence[Measured]

LANES = 0.8
"""Part of the room between two sizes that the lanes of methods and seeds share."""

MARK, SMALL_MARK = 5, 4


def draw(axis: "Axes", grid: Grid, family: str) -> Lettering:
    """Bytes and loss of every cell of a family; sizes stand in equal steps."""
    sized = [c for c in grid.cells if c.family == family and c.is_averaged and total_bytes(c)]
    budgets = sorted({cell.num_tokens for cell in sized})
    colours = budget_colours(budgets)
    lanes = lanes_of(sized)
    ends: list[Label] = []
    for num_tokens in budgets:
        cells = [cell for cell in sized if cell.num_tokens == num_tokens]
        _marks(axis, cells, lanes, colours[num_tokens])
        if smallest := answers.find_smallest(cells):
            at = (lanes[smallest.cell], mean_loss([smallest.cell]))
            axis.plot(*at, marker="o", markersize=13, markerfacecolor="none", color=INK)
        ends.append(Label(_end(cells, lanes), labels.tokens(num_tokens), colours[num_tokens]))
    slots = {int(lanes[cell]) + 0.5: cell for cell in sized}
    axis.set_xlim(-0.05, len(slots) + 0.05)
    axis.set_xlabel("size of all weights (kB), steps not to scale")
    axis.set_ylabel("validation loss (nats/token)")
    return Lettering(
        ends,
        ticks={x: _kilobytes(cell) for x, cell in slots.items()},
        notes=_over_runs({x: labels.weight_label(c.form) for x, c in slots.items()}),
        short_notes=_over_runs({x: _short(c) for x, c in slots.items()}),
    )


def _end(cells: Cells, lanes: Mapping[Measured, float]) -> float:
    """The loss at the right end: that of the bases, or of the widest forms without them."""
    widest = max(int(lanes[cell]) for cell in cells)
    bases = [cell for cell in cells if cell.is_base]
    return mean_loss(bases or [cell for cell in cells if int(lanes[cell]) == widest])


def _kilobytes(cell: Measured) -> str:
    thousands = (total_bytes(cell) or 0) / 1000
    return f"{thousands:.1f}" if thousands < 1000 else labels.grouped(thousands)


def _short(cell: Measured) -> str:
    return labels.weight_label(cell.form).removesuffix(" bits")


def _over_runs(notes: Mapping[float, str]) -> dict[float, str]:
    """One note over the middle of neighbours that would have the same."""
    runs = [list(run) for _, run in groupby(sorted(notes), key=notes.__getitem__)]
    return {(run[0] + run[-1]) / 2: notes[run[0]] for run in runs}


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


def _marks(axis: "Axes", cells: Cells, lanes: Mapping[Measured, float], colour: str) -> None:
    """One mark a cell, underlined when it is good enough."""
    from matplotlib.transforms import offset_copy

    crowded = max(lanes.values()) > MANY_TICKS
    small: dict[str, Any] = {"linestyle": "none", "markersize": SMALL_MARK if crowded else MARK}
    for method in dict.fromkeys(cell.form.method for cell in cells):
        alike = [cell for cell in cells if cell.form.method == method]
        places = [(lanes[cell], mean_loss([cell])) for cell in alike]
        axis.plot(*zip(*places, strict=True), **looks.look(method, colour) | small)
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
