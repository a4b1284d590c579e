"""What all plots share: one look, panels that make room for their text, and files without a date.

Colours are those of Okabe and Ito (told apart by colour-blind readers) for kinds, and a part of
plasma for budgets, which have an order.  Every line also has a label or a mark of its own.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, FAINT, PAPER = "#1f2328", "#57606a", "#d8dee4", "#ffffff"
KINDS = (
    "#D55E00", "#7B4FA3", "#0072B2", "#007A5E", "#B8860B", "#3B9BD1", "#000000", "#C2568F"
)  # fmt: skip

POINTS_PER_INCH = 72
FONT = ("DejaVu Sans", "sans-serif")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a figure is drawn: one unit is one CSS pixel at full width.

    Args:
        width: Of the whole figure.
        axes_height: Of the axes of a panel at least; more labels than fit beside them make it grow.
        columns: Panels side by side at most.
        font: Height of ordinary text.
    """

    width: int
    axes_height: int
    columns: int
    font: float


WIDE = Size(width=880, axes_height=314, columns=2, font=13)
NARROW = Size(width=350, axes_height=268, columns=1, font=11.5)


@dataclass(frozen=True, slots=True)
class Frame:
    """The layout of a figure: equal panels in columns below a key.

    Args:
        columns: Panels side by side.
        rows: Panels above each other.
        axes_height: Of the axes of each panel.
        key: Height of the key above all panels.
        margins: Room around the axes of a panel: left, right, top and bottom.
    """

    columns: int
    rows: int
    axes_height: float
    key: float
    margins: tuple[float, float, float, float]

    @property
    def row_height(self) -> float:
        """Height of a panel with its margins."""
        return self.axes_height + self.margins[2] + self.margins[3]

    @property
    def height(self) -> float:
        """Height of the figure."""
        return self.key + self.rows * self.row_height

    def box(self, index: int, width: float) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of the axes of a panel, in parts of the figure."""
        left, right, _, bottom = self.margins
        cell = width / self.columns
        column, row = index % self.columns, index // self.columns
        return (
            (column * cell + left) / width,
            ((self.rows - 1 - row) * self.row_height + bottom) / self.height,
            (cell - left - right) / width,
            self.axes_height / self.height,
        )


def style(size: Size, salt: str) -> dict[str, Any]:
    """Matplotlib's settings: text stays text, and equal input gives equal files."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": list(FONT),
        "font.size": size.font,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": SOFT,
        "axes.labelsize": size.font,
        "axes.titlesize": size.font,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.8,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "lines.linewidth": 1.8,
        "lines.markersize": 6,
    }


@contextmanager
def panels(count: int, size: Size, salt: str) -> Iterator[tuple["Figure", list["Axes"]]]:
    """A figure with panels under the common look; `place` gives them their places."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(style(size, salt)):
        figure = Figure(figsize=(size.width / POINTS_PER_INCH, 1), dpi=POINTS_PER_INCH)
        yield figure, [figure.add_axes((0, 0, 1, 1), label=str(each)) for each in range(count)]


def place(figure: "Figure", axes: Sequence["Axes"], frame: Frame, size: Size) -> None:
    """Give the figure its height and every panel its place."""
    figure.set_size_inches(size.width / POINTS_PER_INCH, frame.height / POINTS_PER_INCH)
    for index, axis in enumerate(axes):
        axis.set_position(frame.box(index, size.width))


def with_bars(
    axis: "Axes",
    places: Sequence[float],
    heights: Sequence[float],
    errors: Sequence[float],
    look: Mapping[str, Any],
) -> None:
    """Points with error bars, twice as fast as matplotlib's own and without caps.

    On a logarithmic axis a bar that would reach zero ends at a tenth of its point.
    """
    bounded = axis.get_yscale() == "log"
    lowest = [height / 10 if bounded else -math.inf for height in heights]
    bars = zip(heights, errors, lowest, strict=True)
    ends = [(max(height - error, low), height + error) for height, error, low in bars]
    axis.vlines(places, *zip(*ends, strict=True), color=look["color"], linewidth=1.6)
    axis.plot(places, heights, **look)


def svg_bytes(figure: "Figure", *, title: str, names: Mapping[str, str]) -> bytes:
    """The figure as SVG: no date, the title for those who cannot see it.

    Args:
        figure: The figure.
        title: Of the whole file.
        names: What a pointer on an element tells, by the `gid` of the element.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    text = buffer.getvalue().decode()
    for gid, name in names.items():
        opening = f'<g id="{escape(gid)}">'
        text = text.replace(opening, f"{opening}\n<title>{escape(name)}</title>", 1)
    return text.encode()


def budget_colours(budgets: Sequence[int]) -> dict[int, str]:
    """From light to dark with the number of tokens."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    last = max(len(budgets) - 1, 1)
    ramp = colormaps["plasma"]
    return {
        budget: to_hex(ramp(0.8 - 0.8 * rank / last)) for rank, budget in enumerate(sorted(budgets))
    }
