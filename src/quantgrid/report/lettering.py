"""Text of plots: measured before it is written, so that none covers another or leaves the figure.

A page shows text in the reader's own font, most of which are narrower than the one measured here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quantgrid.report.canvas import FONT, Frame, Size, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SMALL = 0.94
DENSE_DECADES = 2.7
LINE_HEIGHT = 1.25
LEADER = 1.6
"""From a panel to a label at its right, in heights of text."""
KEY_MARK, KEY_PAD, KEY_GAP, KEY_LINE = 1.4, 0.3, 1.0, 1.5
"""Of the key, in heights of its text: a mark, from it to its text, between columns, a row."""
MOST_LABEL = 0.5
"""Part of a panel's width that labels at its right may take; a longer one is cut."""
SLACK = 1.05
"""What a text may be wider than it is measured: hinting alone makes a twentieth."""
MANY_TICKS = 8
"""More places than this on an x axis take the whole width of a figure."""

Looks = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Label:
    """Text beside the right end of a line, at a height in data units."""

    height: float
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Lettering:
    """Text of a panel that is written when everything is drawn and has its place.

    Args:
        ends: Labels at the right.
        ticks: Names of places on the x axis; empty when matplotlib chooses them.
        notes: Short texts above places on the x axis.
        short_notes: The same shorter, for a panel where not all notes find room.
        title: Of the panel; empty for a single one.
    """

    ends: Sequence[Label]
    ticks: Mapping[float, str] = field(default_factory=dict)
    notes: Mapping[float, str] = field(default_factory=dict)
    short_notes: Mapping[float, str] = field(default_factory=dict)
    title: str = ""


def letter(
    figure: "Figure",
    axes: Sequence["Axes"],
    panels: Sequence[Lettering],
    key: Looks,
    size: Size,
) -> None:
    """Lay out panels by the text that each must hold, then write it."""
    for _ in range(2):  # how many numbers an axis shows follows from its height
        frame = _frame(axes, panels, key, size)
        place(figure, axes, frame, size)
    _write_key(figure, key, frame, size)
    most = size.width / frame.columns * MOST_LABEL - LEADER * size.font
    for axis, panel in zip(axes, panels, strict=True):
        above = LINE_HEIGHT if panel.notes else 0
        axis.set_title(panel.title, pad=(0.5 + above) * size.font)
        if panel.ticks:
            name_ticks(axis, panel.ticks, size)
        note_above(axis, panel, size)
        label_right(axis, [_fitted(label, most, size) for label in panel.ends], size)


def _frame(axes: Sequence["Axes"], panels: Sequence[Lettering], key: Looks, size: Size) -> Frame:
    """The layout that holds all text."""
    crowded = any(len(panel.ticks) > MANY_TICKS for panel in panels)
    columns = 1 if crowded else min(size.columns, len(panels))
    most = size.width / columns * MOST_LABEL
    ends = [label.text for panel in panels for label in panel.ends]
    right = max((text_width(text, size.font * SMALL) for text in ends), default=0)
    top = 0.7 + LINE_HEIGHT * (any(p.notes for p in panels) + any(p.title for p in panels))
    left = max(map(_tick_width, axes)) + LINE_HEIGHT * size.font + 12
    labels = max(len(panel.ends) for panel in panels)
    rows = math.ceil(len(key) / _key_columns(key, size.width - left, size))
    return Frame(
        columns=columns,
        rows=math.ceil(len(panels) / columns),
        axes_height=max(size.axes_height, (labels - 1) * LINE_HEIGHT * size.font),
        key=(0.5 + rows * KEY_LINE) * size.font,
        margins=(
            left,
            min(right + (LEADER + 0.3) * size.font, most),
            top * size.font,
            4.9 * size.font,
        ),
    )


@lru_cache(maxsize=4096)
def text_width(text: str, height: float) -> float:
    """Width of one line of text in points, and a little more: few readers have this very font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=list(FONT), size=height)
    return SLACK * float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _tick_width(axis: "Axes") -> float:
    """Width of the widest number on the y axis."""
    low, high = sorted(axis.get_ylim())
    shown = [tick for tick in axis.yaxis.get_majorticklocs() if low <= tick <= high]
    texts = axis.yaxis.get_major_formatter().format_ticks(shown)
    height = axis.yaxis.get_ticklabels()[0].get_fontsize() if shown else 0
    return max((text_width(text, float(height)) for text in texts), default=0)


def _fitted(label: Label, most: float, size: Size) -> Label:
    """The label, cut where it is wider than the room."""
    text, height = label.text, size.font * SMALL
    while len(text) > 1 and text_width(text, height) > most:
        text = f"{text[:-2]}…"
    return replace(label, text=text)


def label_right(axis: "Axes", labels: Sequence[Label], size: Size) -> None:
    """Write labels to the right of a panel, each near its line and none on another.

    Call it last: it needs the final limits of the panel.
    """
    ordered = sorted(labels, key=lambda label: label.height)
    lowest, highest = axis.bbox.y0, axis.bbox.y1
    drawn = [float(axis.transData.transform((1, label.height))[1]) for label in ordered]
    heights = [min(max(height, lowest), highest) for height in drawn]
    gap = size.font * LINE_HEIGHT
    placed = apart(heights, gap, lowest, highest) if heights else []
    for label, wanted, at in zip(ordered, heights, placed, strict=True):
        _write(axis, label, wanted, at, size)


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
        1 + LEADER * step,
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


def _write_key(figure: "Figure", key: Looks, frame: Frame, size: Size) -> None:
    """Say above all panels which mark or line is which."""
    from matplotlib.lines import Line2D

    left = frame.margins[0]
    figure.legend(
        handles=[Line2D([], [], label=name, **look) for name, look in key.items()],
        loc="upper left",
        bbox_to_anchor=(left / size.width, 1 - 0.4 * size.font / frame.height),
        ncols=_key_columns(key, size.width - left, size),
        frameon=False,
        fontsize=size.font * SMALL,
        handlelength=KEY_MARK,
        handletextpad=KEY_PAD,
        columnspacing=KEY_GAP,
        labelspacing=0.3,
        borderpad=0,
        borderaxespad=0,
    )


def _key_columns(key: Looks, room: float, size: Size) -> int:
    """As many columns as fit into the room; matplotlib fills them one after the other."""
    height = size.font * SMALL
    widths = [text_width(name, height) + (KEY_MARK + KEY_PAD) * height for name in key]
    for columns in range(len(widths), 1, -1):
        rows, longer = divmod(len(widths), columns)
        ends = [rows * (c + 1) + min(c + 1, longer) for c in range(columns)]
        widest = [max(widths[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        if sum(widest) + (columns - 1) * KEY_GAP * height <= room:
            return columns
    return 1


def note_above(axis: "Axes", panel: Lettering, size: Size) -> None:
    """Write notes above a panel, all of them short where the long ones find no room.

    A short one that finds no room is left out.
    """
    gap, height = 0.3 * size.font, size.font * SMALL
    notes = panel.notes
    if len(_roomy(axis, notes, height, gap)) < len(notes):
        notes = panel.short_notes or notes
    for at in sorted(_roomy(axis, notes, height, gap)):
        x = (_pixels(axis, at) - axis.bbox.x0) / axis.bbox.width
        y = 1 + 0.4 * size.font / axis.bbox.height
        text = axis.text(x, y, notes[at], transform=axis.transAxes, ha="center")
        text.set_fontsize(height)


def name_ticks(axis: "Axes", names: Mapping[float, str], size: Size) -> None:
    """A tick at each place of the x axis; where there is no room for its name, the tick is bare.

    Call it last: it needs the final limits of the panel.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    roomy = _roomy(axis, names, size.font, gap=0.5 * size.font)
    places = sorted(names)
    axis.xaxis.set_major_locator(FixedLocator(places))
    texts = [names[at] if at in roomy else "" for at in places]
    axis.xaxis.set_major_formatter(FixedFormatter(texts))
    axis.xaxis.set_minor_locator(NullLocator())


def _roomy(axis: "Axes", texts: Mapping[float, str], height: float, gap: float) -> set[float]:
    """Places whose centred texts keep a gap between them; the last one always stays."""
    kept, free_to = set(), math.inf
    for at in sorted(texts, reverse=True):
        half = max(text_width(line, height) for line in texts[at].splitlines()) / 2
        middle = _pixels(axis, at)
        if middle + half < free_to:
            free_to = middle - half - gap
            kept.add(at)
    return kept


def _pixels(axis: "Axes", at: float) -> float:
    return float(axis.transData.transform((at, axis.get_ylim()[0]))[0])


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
