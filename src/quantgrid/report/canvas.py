"""What all plots share: one look, panels, labels beside their lines, and files without a date.

Colours are those of Okabe and Ito (told apart by colour-blind readers) for kinds, and a part of
plasma for budgets, which have an order.  Every line also has a label or a mark of its own.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, SOFT, FAINT, PAPER = "#1f2328", "#57606a", "#d8dee4", "#ffffff"
KINDS = ("#D55E00", "#7B4FA3", "#0072B2", "#007A5E", "#B8860B", "#3B9BD1", "#000000")

POINTS_PER_INCH = 72
SMALL = 0.94
DENSE_DECADES = 2.7
LINE_HEIGHT = 1.25
KEY_LINES, TITLE_LINES = 1.5, 3.1
"""Heights above a panel, in lines of text: notes, then the key, then the title."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a figure is drawn: one unit is one CSS pixel at full width.

    Args:
        width: Of the whole figure.
        panel_height: Of each panel, title and axis included.
        columns: Panels side by side at most.
        font: Height of ordinary text.
        label_width: Room for labels to the right of a panel.
    """

    width: int
    panel_height: int
    columns: int
    font: float
    label_width: int


WIDE = Size(width=880, panel_height=440, columns=2, font=13, label_width=150)
NARROW = Size(width=350, panel_height=380, columns=1, font=11.5, label_width=132)


@dataclass(frozen=True, slots=True)
class Label:
    """Text beside the right end of a line, at a height in data units."""

    height: float
    text: str
    colour: str


def style(size: Size, salt: str) -> dict[str, Any]:
    """Matplotlib's settings: text stays text, and equal input gives equal files."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": ["DejaVu Sans", "sans-serif"],
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
def panels(titles: Sequence[str], size: Size, salt: str) -> Iterator[tuple["Figure", list["Axes"]]]:
    """A figure with one panel a title, under the common look; a single panel needs no title."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(size.columns, len(titles))
    rows = math.ceil(len(titles) / columns)
    height = size.panel_height * rows
    with mpl.rc_context(style(size, salt)):
        inches = (size.width / POINTS_PER_INCH, height / POINTS_PER_INCH)
        figure = Figure(figsize=inches, dpi=POINTS_PER_INCH)
        axes = []
        for index, title in enumerate(titles):
            axis = figure.add_axes(_box(index, columns, rows, size, height))
            if len(titles) > 1:
                axis.set_title(title, pad=TITLE_LINES * size.font)
            axes.append(axis)
        yield figure, axes


def _box(
    index: int, columns: int, rows: int, size: Size, height: int
) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of a panel's axes, in parts of the figure."""
    cell = size.width / columns
    left, bottom, top = 5.6 * size.font, 4.9 * size.font, 4.8 * size.font
    column, row = index % columns, index // columns
    return (
        (column * cell + left) / size.width,
        ((rows - 1 - row) * size.panel_height + bottom) / height,
        (cell - left - size.label_width) / size.width,
        (size.panel_height - bottom - top) / height,
    )


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


def label_right(axis: "Axes", labels: Sequence[Label], size: Size) -> None:
    """Write labels to the right of a panel, each near its line and none on another.

    Call it last: it needs the final limits of the panel.
    """
    if not labels:
        return
    ordered = sorted(labels, key=lambda label: label.height)
    to_pixels = axis.transData
    heights = [float(to_pixels.transform((1, label.height))[1]) for label in ordered]
    gap = size.font * LINE_HEIGHT
    lowest, highest = axis.bbox.y0, axis.bbox.y1
    for label, wanted, placed in zip(
        ordered, heights, apart(heights, gap, lowest, highest), strict=True
    ):
        _write(axis, label, wanted, placed, size)


def _write(axis: "Axes", label: Label, wanted: float, placed: float, size: Size) -> None:
    box = axis.bbox
    at = ((wanted - box.y0) / box.height, (placed - box.y0) / box.height)
    step = size.font / box.width
    axis.plot(
        [1 + 0.15 * step, 1 + 0.8 * step, 1 + 1.3 * step],
        [at[0], at[1], at[1]],
        transform=axis.transAxes,
        clip_on=False,
        color=label.colour,
        linewidth=1.4,
    )
    axis.text(
        1 + 1.6 * step,
        at[1],
        label.text,
        transform=axis.transAxes,
        va="center_baseline",
        ha="left",
        fontsize=size.font * SMALL,
    )


def apart(wanted: Sequence[float], gap: float, lowest: float, highest: float) -> list[float]:
    """Heights near the wanted ones (ascending), at least `gap` apart, within the limits.

    Neighbours that come too near form a block around their mean, as in isotonic regression.  When
    the limits leave too little room for all, the gap shrinks.
    """
    count = len(wanted)
    gap = min(gap, (highest - lowest) / max(count - 1, 1))
    blocks: list[tuple[float, int]] = []
    for index, height in enumerate(wanted):
        blocks.append((height - index * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (above, many), (below, few) = blocks.pop(-2), blocks.pop()
            blocks.append(((above * many + below * few) / (many + few), many + few))
    roof = highest - (count - 1) * gap
    bases = [min(max(base, lowest), roof) for base, many in blocks for _ in range(many)]
    return [base + index * gap for index, base in enumerate(bases)]


def key(axis: "Axes", looks: Mapping[str, Mapping[str, Any]], size: Size) -> None:
    """Say above a panel which mark or line is which, for those that have no label beside them."""
    handles = [axis.plot([], [], label=name, **look)[0] for name, look in looks.items()]
    axis.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1 + KEY_LINES * size.font / axis.bbox.height),
        ncols=len(handles),
        frameon=False,
        fontsize=size.font * SMALL,
        handlelength=1.4,
        handletextpad=0.3,
        columnspacing=1.0,
        borderpad=0,
        borderaxespad=0,
    )


def note_above(axis: "Axes", notes: Mapping[float, str], size: Size) -> None:
    """Write short notes above a panel at places on its x axis; one that finds no room is left out.

    Call it last: it needs the final limits of the panel.
    """
    for place in _roomy(axis, notes, size, gap=0.2 * size.font):
        x = (_pixels(axis, place) - axis.bbox.x0) / axis.bbox.width
        y = 1 + 0.4 * size.font / axis.bbox.height
        text = axis.text(x, y, notes[place], transform=axis.transAxes, ha="center")
        text.set_fontsize(size.font * SMALL)


def name_ticks(axis: "Axes", names: Mapping[float, str], size: Size) -> None:
    """A tick at each place of the x axis; where there is no room for its name, the tick is bare.

    Call it last: it needs the final limits of the panel.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    roomy = _roomy(axis, names, size, gap=0.7 * size.font)
    places = sorted(names)
    axis.xaxis.set_major_locator(FixedLocator(places))
    texts = [names[place] if place in roomy else "" for place in places]
    axis.xaxis.set_major_formatter(FixedFormatter(texts))
    axis.xaxis.set_minor_locator(NullLocator())


def _roomy(axis: "Axes", texts: Mapping[float, str], size: Size, gap: float) -> set[float]:
    """Places whose centred texts keep a gap between them; the last one always stays."""
    kept, free_to = set(), math.inf
    for place in sorted(texts, reverse=True):
        longest = max(len(line) for line in texts[place].splitlines())
        half = longest * size.font * 0.26
        middle = _pixels(axis, place)
        if middle + half < free_to:
            free_to = middle - half - gap
            kept.add(place)
    return kept


def _pixels(axis: "Axes", place: float) -> float:
    return float(axis.transData.transform((place, axis.get_ylim()[0]))[0])


def plain_ticks(axis: "Axis") -> None:
    """Numbers as a person writes them on a logarithmic axis: few where many decades are."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    steps = (1, 1.5, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < DENSE_DECADES else (1,)
    axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=100))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.9f}".rstrip("0").rstrip(".")))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def svg_bytes(figure: "Figure", *, title: str) -> bytes:
    """The figure as SVG: no date, the title for those who cannot see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    return buffer.getvalue()


def budget_colours(budgets: Sequence[int]) -> dict[int, str]:
    """From light to dark with the number of tokens."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    last = max(len(budgets) - 1, 1)
    ramp = colormaps["plasma"]
    return {
        budget: to_hex(ramp(0.8 - 0.8 * rank / last)) for rank, budget in enumerate(sorted(budgets))
    }
