"""The plot of loss against bits per weight."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quantgrid.report import labels, looks
from quantgrid.report.canvas import budget_colours, with_bars
from quantgrid.report.lettering import Label, Lettering
from quantgrid.report.records import Grid, Measured, bit_width
from quantgrid.report.stats import mean_loss, spread
from quantgrid.report.table import mean_bits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cells = Sequence[Measured]


def draw(axis: "Axes", grid: Grid, family: str) -> Lettering:
    """Loss of every form that quantises weights, a colour a budget."""
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
                {"linestyle": "none", **looks.look(method, colours[num_tokens])},
            )
        if base := grid.seeds_of(family, num_tokens, "none"):
            axis.axhline(mean_loss(base), **looks.UNQUANTISED | {"color": colours[num_tokens]})
            end = mean_loss(base) if end is None else end
        if end is not None:
            ends.append(Label(end, f"{labels.tokens(num_tokens)} tokens", colours[num_tokens]))
    axis.set_xlabel("bits per weight, scales included")
    axis.set_ylabel("validation loss (nats/token)")
    axis.margins(x=0.04)
    return Lettering(ends)


def remark(grid: Grid) -> str:
    """Which forms have no place in the plot, if any."""
    names = labels.form_labels(grid.forms())
    whole = [names[v] for v, f in grid.forms().items() if f.method != "none" and f.bits is None]
    if not whole:
        return ""
    return f"Forms that leave the weights as they are have no place here: {', '.join(whole)}."


def _best_line(axis: "Axes", groups: Sequence[Cells], colour: str) -> float | None:
    """A line through the form of lowest loss at every width of weights; the loss where it ends."""
    lowest: dict[float, Cells] = {}
    for cells in groups:
        width = bit_width(cells[0].form)[0]
        lowest[width] = min(lowest.get(width, cells), cells, key=mean_loss)
    best = sorted(lowest.values(), key=mean_bits)
    losses = [mean_loss(cells) for cells in best]
    axis.plot([mean_bits(cells) for cells in best], losses, color=colour, linewidth=2.2)
    return losses[-1] if losses else None


def _quantised(grid: Grid, family: str, num_tokens: int) -> list[Cells]:
    """The cells of every form that quantises weights at a budget, together by form."""
    groups = [
        grid.seeds_of(family, num_tokens, variant)
        for variant, form in grid.forms().items()
        if form.bits is not None
    ]
    return [cells for cells in groups if cells]


def _by_method(groups: Sequence[Cells]) -> dict[str, list[Cells]]:
    found = defaultdict(list)
    for cells in groups:
        found[cells[0].form.method].append(cells)
    return found


def _loss_spread(cells: Cells) -> float:
    return spread([float(cell.losses.mean()) for cell in cells])
