"""The plot of damage against training tokens, which answers first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quantgrid.report import answers, fits, labels, looks
from quantgrid.report.canvas import with_bars
from quantgrid.report.laws import TRAINED_ENOUGH
from quantgrid.report.lettering import Label, Lettering, plain_ticks
from quantgrid.report.records import Grid
from quantgrid.report.stats import Estimate, damage
from quantgrid.report.table import tokens_per_parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 12
"""Up to so many forms of a family are all named."""

THIN: dict[str, Any] = {"linewidth": 0.8, "markersize": 3, "alpha": 0.45, "zorder": 1.5}

Line = Mapping[int, Estimate]
"""Damage by budget in tokens, where it is above zero and can be drawn."""


def draw(axis: "Axes", grid: Grid, family: str) -> Lettering:
    """Damage of every form of a family over tokens, both logarithmic."""
    names, colours = labels.form_labels(grid.forms()), looks.width_colours(grid)
    lines = _lines(grid, family)
    told = _named(grid, family, lines)
    axis.set(xscale="log", yscale="log")
    for variant, line in lines.items():
        look = looks.look(grid.forms()[variant].method, colours[variant])
        look |= {"linestyle": looks.line(grid.forms()[variant].method)}
        look |= {"gid": gid(grid, family, variant)}
        _draw_line(axis, line, look if variant in told else look | THIN)
    _fitted_lines(axis, grid, family, {variant: colours[variant] for variant in told})
    _end_where_told(axis, lines)
    ends = {v: Label(list(lines[v].values())[-1].mean, names[v], colours[v]) for v in told}
    _lead_out(axis, {end: max(lines[variant]) for variant, end in ends.items()})
    plain_ticks(axis.yaxis)
    axis.set_xlabel("training tokens (per parameter)")
    axis.set_ylabel("damage (nats/token)")
    return Lettering(list(ends.values()), ticks=_budget_names(grid, family))


def remark(grid: Grid) -> str:
    """Which lines have no name in the plot, if any."""
    families = {family: _lines(grid, family) for family in grid.quantised_families()}
    count = sum(map(len, families.values()))
    told = sum(len(_named(grid, family, lines)) for family, lines in families.items())
    if told == count:
        return ""
    return (
        f"{told} of {count} lines are named: of the forms of one width those that lose least and "
        "most. The others are thin, without bars; a pointer tells their names, and the tables have "
        "them all. Dots lead to its name from a form that was not measured at the largest budget."
    )


def tooltips(grid: Grid) -> dict[str, str]:
    """What a pointer on a line tells, by the line's element."""
    names = labels.form_labels(grid.forms())
    return {
        gid(grid, family, variant): names[variant]
        for family in grid.quantised_families()
        for variant in _lines(grid, family)
    }


def gid(grid: Grid, family: str, variant: str) -> str:
    """The element that is the line of a form."""
    return f"form-{grid.quantised_families().index(family)}-{variant}"


def _lines(grid: Grid, family: str) -> dict[str, Line]:
    """The lines of all forms by variant."""
    lines = {}
    for variant, form in grid.forms().items():
        budgets = grid.budgets(family, variant) if form.method != "none" else []
        found = {b: damage(grid.seeds_of(family, b, variant)) for b in budgets}
        lines[variant] = {b: each for b, each in found.items() if each.mean > 0}
    return {variant: line for variant, line in lines.items() if line}


def _named(grid: Grid, family: str, lines: Mapping[str, Line]) -> list[str]:
    """The forms that have a name beside their line; all where they are few."""
    told = answers.extremes(grid, family) if len(lines) > FEW else lines
    return [variant for variant in lines if variant in told]


def _draw_line(axis: "Axes", line: Line, look: Mapping[str, Any]) -> None:
    means = [each.mean for each in line.values()]
    if "alpha" in look:
        axis.plot(list(line), means, **look)
    else:
        with_bars(axis, list(line), means, [each.se for each in line.values()], look)


def _fitted_lines(axis: "Axes", grid: Grid, family: str, colours: Mapping[str, str]) -> None:
    """The fitted damage law as thin lines, over the budgets of each named form that it is of."""
    parameters = next(c.model.num_parameters for c in grid.cells if c.family == family)
    for each in fits.fitted(grid):
        for variant in (v for v in each.variants if v in colours):
            tokens = [t for t in grid.budgets(family, variant) if t >= TRAINED_ENOUGH]
            bits = float(grid.forms()[variant].bits or 0)
            values = [each.law.damage(bits, num_tokens, parameters) for num_tokens in tokens]
            axis.plot(tokens, values, color=colours[variant], linewidth=0.6, zorder=1)


def _end_where_told(axis: "Axes", lines: Mapping[str, Line]) -> None:
    """End the axis below the smallest damage that is told from zero: the rest is noise."""
    told = [each.mean for line in lines.values() for each in line.values() if each.holds]
    if told and min(told) / 2 > axis.get_ylim()[0]:
        axis.set_ylim(bottom=min(told) / 2)


def _lead_out(axis: "Axes", ends: Mapping[Label, int]) -> None:
    """Dots from the last point of a line that ends early to the edge, where its name is."""
    edge, last = axis.get_xlim()[1], max(ends.values(), default=0)
    for label, at in ends.items():
        if at < last:
            look: dict[str, Any] = {"color": label.colour, "linewidth": 0.7, "alpha": 0.7}
            axis.plot([at, edge], [label.height] * 2, linestyle=(0, (1, 3)), **look)
    axis.set_xlim(right=edge)


def _budget_names(grid: Grid, family: str) -> dict[float, str]:
    """Tokens, and below them tokens per parameter in brackets."""
    some = {cell.num_tokens: cell for cell in grid.cells if cell.family == family}
    return {
        num_tokens: f"{labels.tokens(num_tokens)}\n({tokens_per_parameter(cell):.1f})"
        for num_tokens, cell in some.items()
    }
