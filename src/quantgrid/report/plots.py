"""The three plots of a grid.  Each is drawn wide for a screen and narrow for a phone."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quantgrid.report import answers, labels, looks, plot_bits, plot_damage, plot_size
from quantgrid.report.canvas import SOFT, Size, panels, svg_bytes
from quantgrid.report.lettering import Lettering, letter
from quantgrid.report.records import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes", Grid, str], Lettering]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: the name that its file carries, its title, what to read in it, and who draws it.

    Args:
        name: Of its file.
        title: Above it.
        text: What to read in it, of any grid.
        draw: Draws one family into a panel and returns the text that the panel needs.
        unquantised: How the base looks in the key; empty where it is not drawn.
        remark: What is to be said of one grid; empty when nothing is.
        tooltips: What a pointer on an element tells, by the element's id.
    """

    name: str
    title: str
    text: str
    draw: Draw
    unquantised: Mapping[str, Any]
    remark: Callable[[Grid], str] = lambda _: ""
    tooltips: Callable[[Grid], Mapping[str, str]] = lambda _: {}

    def caption(self, grid: Grid) -> str:
        """What stands below the plot of a grid."""
        return f"{self.text} {self.remark(grid)}".strip()


def svg(plot: Plot, grid: Grid, size: Size) -> bytes:
    """The plot as SVG, one panel for each family with a form; equal records give equal bytes."""
    with drawn(plot, grid, size) as figure:
        title = f"{plot.title}, grid {grid.name}"
        return svg_bytes(figure, title=title, names=plot.tooltips(grid))


@contextmanager
def drawn(plot: Plot, grid: Grid, size: Size) -> Iterator["Figure"]:
    """The figure under the common look."""
    families = grid.quantised_families()
    titles = labels.family_labels(families) if len(families) > 1 else {}
    with panels(len(families), size, f"{plot.name}-{size.width}") as (figure, axes):
        lettered = [
            replace(plot.draw(axis, grid, family), title=titles.get(family, ""))
            for axis, family in zip(axes, families, strict=True)
        ]
        key: dict[str, Mapping[str, Any]] = {**looks.method_key(_methods(plot, grid))}
        if plot.unquantised:
            key["unquantised"] = plot.unquantised
        letter(figure, axes, lettered, key, size)
        yield figure


def _methods(plot: Plot, grid: Grid) -> set[str]:
    forms = grid.forms().values()
    return {f.method for f in forms if f.bits is not None or plot.draw is not plot_bits.draw}


PLOTS = (
    Plot(
        "bits",
        "Loss against bits per weight",
        "Validation loss of every form, one colour for each training budget, mean over seeds. The "
        "thick line joins the form that loses least at each width, the dashed one is the "
        "unquantised base. Bars are one standard deviation over seeds: they hold what training "
        "differs by from seed to seed. The errors in the tables are paired with each seed's own "
        "base, where that cancels, and are much smaller.",
        plot_bits.draw,
        looks.UNQUANTISED,
        remark=plot_bits.remark,
    ),
    Plot(
        "damage",
        "Damage against training tokens",
        "What a form loses against its own base, mean over seeds; bars are one standard error, "
        "paired over validation sequences; one colour for each width of weights. Both axes are "
        "logarithmic, so that a straight line is a power law; points at or below zero cannot be "
        "drawn there, and the axis ends below the smallest damage that is told from zero.",
        plot_damage.draw,
        {},
        remark=plot_damage.remark,
        tooltips=plot_damage.tooltips,
    ),
    Plot(
        "size",
        "Size against loss",
        "Every cell: bytes of all its weights and its validation loss, one colour for each "
        "training budget (at the right, in tokens). Methods and seeds of one size stand beside "
        "each other; the bits of a weight are above them. Underlined cells lie within "
        f"{answers.TOLERANCE_NATS:g} nats of their base; a ring is around the cell that the table "
        "of smallest cells names at each budget.",
        plot_size.draw,
        looks.look("none", SOFT) | {"linestyle": "none"},
    ),
)
