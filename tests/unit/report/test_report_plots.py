"""Plots: files that depend on the records alone, and labels that do not cover each other."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from quantgrid import layout
from quantgrid.forms import METHODS
from quantgrid.report import labels, looks, plot_damage
from quantgrid.report.canvas import NARROW, WIDE, Size, budget_colours
from quantgrid.report.lettering import apart
from quantgrid.report.plot_size import lanes_of
from quantgrid.report.plots import PLOTS, Plot, drawn, svg
from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.report.stats import damage
from quantgrid.report.table import total_bytes
from report_records import write_demo

DAMAGE = next(each for each in PLOTS if each.name == "damage")


def texts(data: bytes) -> list[str]:
    """All text that a figure shows."""
    root = ET.fromstring(data)  # noqa: S314 - our own file
    return [str(each.text) for each in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_plot_is_equal_when_drawn_twice(demo: Grid, plot: Plot, size: Size) -> None:
    """Equal records give equal bytes: no date, no random id."""
    data = svg(plot, demo, size)

    assert data == svg(plot, demo, size)
    assert not re.search(rb"<dc:date>|20\d\d-\d\d-\d\dT", data)


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_plot_has_a_path_when_it_is_published(plot: Plot) -> None:
    """Each plot has its place in the layout, which the rule declares."""
    assert list(layout.PLOTS) == [each.name for each in PLOTS]
    assert plot.name in layout.PLOTS[plot.name]


def test_lines_carry_their_names_when_drawn(demo: Grid) -> None:
    """Text stays text, and every form is named beside its line."""
    shown = texts(svg(PLOTS[1], demo, WIDE))

    for name in ("RTN W4 row", "RTN W3 g32", "GPTQ W3 g32", "GPTQ W2 g32 asym", "QAT ternary row"):
        assert name in shown


def test_budgets_carry_their_names_when_drawn(demo: Grid) -> None:
    """Every budget is named beside its line."""
    shown = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts(svg(PLOTS[0], demo, WIDE))]

    for name in ("100 k tokens", "200 k tokens", "400 k tokens", "800 k tokens", "1.6 M tokens"):
        assert name in shown


def test_marks_keep_apart_when_sizes_are_equal(demo: Grid) -> None:
    """In the plot of sizes no two cells of a budget stand in one place, and rooms follow sizes."""
    places = lanes_of(demo.cells)

    for num_tokens in demo.budgets(demo.families()[0]):
        here = sorted(at for cell, at in places.items() if cell.num_tokens == num_tokens)
        assert min(after - before for before, after in pairwise(here)) > 0.1
    rooms = {(total_bytes(cell), int(at)) for cell, at in places.items()}
    assert [room for _, room in sorted(rooms)] == list(range(len(rooms)))


def test_widths_and_budgets_are_named_when_the_plot_is_narrow(demo: Grid) -> None:
    """On a phone every size keeps its width, and tokens stand with tokens per parameter."""
    assert {"ternary", "2 bits", "3 bits", "4 bits", "base"} <= set(
        texts(svg(PLOTS[2], demo, NARROW))
    )
    assert {"(0.9)", "(15.0)"} <= set(texts(svg(PLOTS[1], demo, NARROW)))


class _Reader(RendererAgg):  # type: ignore[misc]
    """Draws nothing that is looked at, and keeps the place of every text that is drawn."""

    def __init__(self, figure: Figure) -> None:
        super().__init__(*figure.bbox.size, figure.dpi)
        self.seen: dict[str, Bbox] = {}

    def draw_text(
        self, _gc: Any, x: float, y: float, s: str, prop: Any, angle: float, **_: Any
    ) -> None:
        """Keep a line of text: its place is that of the left end of its base line."""
        width, height, descent = self.get_text_width_height_descent(s, prop, ismath=False)
        left, base = x, self.height - y
        low, high = base - descent, base - descent + height
        box = (left, low, left + width, high)
        if angle:
            assert angle == 90
            box = (x - height + descent, base, x + descent, base + width)
        self.seen[f"{s} at {left:.0f} {base:.0f}"] = Bbox.from_extents(*box)


def written(figure: Figure) -> dict[str, Bbox]:
    """Every text that a figure shows, with its place."""
    reader = _Reader(figure)
    figure.draw(reader)
    return reader.seen


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("grid", ["demo", "crowded"])
def test_no_text_covers_another_or_leaves_the_figure(
    request: pytest.FixtureRequest, grid: str, plot: Plot, size: Size
) -> None:
    """With six forms, and with forty of each of two models."""
    with drawn(plot, request.getfixturevalue(grid), size) as figure:
        texts, edge = written(figure), figure.bbox

    assert len(texts) > 20
    outside = {
        name: at.extents
        for name, at in texts.items()
        if at.x0 < -1 or at.y0 < -1 or at.x1 > edge.x1 + 1 or at.y1 > edge.y1 + 1
    }
    assert outside == {}
    assert covered(texts) == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_panel_grows_when_it_has_more_labels_than_room(
    crowded: Grid, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All forty names beside their lines are more than a panel of the usual height holds."""
    monkeypatch.setattr(plot_damage, "FEW", 99)
    with drawn(DAMAGE, crowded, size) as figure:
        texts = written(figure)

    assert covered(texts) == []
    names = set(labels.form_labels(crowded.forms()).values())
    assert sum(name.rpartition(" at ")[0] in names for name in texts) > 60


def covered(texts: Mapping[str, Bbox]) -> list[str]:
    """Pairs of texts that lie on each other; lines of one text may touch."""
    return [
        f"{one}: {other}"
        for (one, a), (other, b) in combinations(texts.items(), 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2.5
    ]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_numbers_keep_room_when_a_panel_shows_more_of_them(tmp_path: Path, plot: Plot) -> None:
    """A low panel has whole numbers on its axis, a high one wider ones: the last are measured."""
    budgets = {"t80k": 80_000, "t1600k": 1_600_000}
    wanted, results = write_demo(tmp_path, budgets=budgets, seeds=1, sequences=8)
    with drawn(plot, read_grid(read_wanted(wanted), results), WIDE) as figure:
        texts = written(figure)

    assert min(at.x0 for at in texts.values()) >= -1


def test_every_size_is_named_when_there_is_the_whole_width(crowded: Grid) -> None:
    """Panels of many sizes stand below each other, for side by side half the names have no room."""
    with drawn(PLOTS[2], crowded, WIDE) as figure:
        texts = [name.rpartition(" at ")[0] for name in written(figure)]
        axes = figure.axes

    assert len({round(axis.get_position().x0, 3) for axis in axes}) == 1
    for axis in axes:
        ticks = [label.get_text() for label in axis.get_xticklabels()]
        assert len(ticks) > 8
        assert set(ticks) <= set(texts)


def test_noise_does_not_stretch_the_axis_and_no_leader_leaves_the_panel(crowded: Grid) -> None:
    """The axis of damage ends at half of what is told from zero; what lies below has a name too."""
    with drawn(DAMAGE, crowded, WIDE) as figure:
        axis = figure.axes[0]
        written(figure)

    family = crowded.quantised_families()[0]
    every = [
        damage(crowded.seeds_of(family, budget, variant))
        for variant, form in crowded.forms().items()
        for budget in (crowded.budgets(family, variant) if form.method != "none" else ())
    ]
    smallest = min(each.mean for each in every if each.holds and each.mean > 0)
    assert axis.get_ylim()[0] == pytest.approx(smallest / 2)
    assert any(0 < each.mean < smallest / 2 for each in every)
    leaders = [
        np.asarray(line.get_ydata(), dtype=float) for line in axis.lines if not line.get_clip_on()
    ]
    assert leaders
    assert all(-1e-6 <= line.min() <= line.max() <= 1 + 1e-6 for line in leaders)


def test_lines_without_a_name_stand_back(crowded: Grid, demo: Grid) -> None:
    """They are thin and faint where some are named; where all are, none is."""
    for grid, has_faint in ((crowded, True), (demo, False)):
        with drawn(DAMAGE, grid, WIDE) as figure:
            forms = [line for line in figure.axes[0].lines if line.get_gid()]
        faint = [line for line in forms if (line.get_alpha() or 1) < 0.5]
        assert bool(faint) is has_faint
        assert len(faint) < len(forms)
        assert all(line.get_linewidth() < 1 for line in faint)


def test_every_method_has_a_mark_and_an_order() -> None:
    """No two methods look the same, whatever a grid holds."""
    assert set(looks.MARKS) == set(METHODS) - {"none"}
    assert len(set(looks.MARKS.values()) | {looks.OTHER_MARK}) == len(looks.MARKS) + 1


def test_lines_without_a_name_are_counted_and_told_by_a_pointer(crowded: Grid, demo: Grid) -> None:
    """The caption says how many have no name beside them, and each of them has one as a tip."""
    data = svg(DAMAGE, crowded, WIDE)

    told = re.search(r"(\d+) of (\d+) lines are named", DAMAGE.caption(crowded))
    assert told
    tips = re.findall(rb'<g id="(form-[^"]+)">\s*<title>([^<]+)</title>', data)
    assert len(tips) == len({gid for gid, _ in tips}) == int(told[2])
    shown = texts(data)
    names = set(labels.form_labels(crowded.forms()).values())
    assert sum(text in names for text in shown) == int(told[1]) < int(told[2])
    assert "lines are named" not in DAMAGE.caption(demo)


def test_best_line_joins_one_form_a_width_when_sizes_are_many(crowded: Grid) -> None:
    """A worse form of fewer scales is no corner of the line of best ones."""
    family = crowded.families()[0]
    with drawn(PLOTS[0], crowded, WIDE) as figure:
        lines = [line for line in figure.axes[0].lines if line.get_linewidth() == 2.2]

    widths = {form.bits for form in crowded.forms().values() if form.bits is not None}
    assert len(lines) == len(crowded.budgets(family))
    assert max(np.size(line.get_xdata()) for line in lines) == len(widths)


def test_budget_colours_differ_when_many() -> None:
    """Each budget has a colour of its own, a single one too."""
    assert len(set(budget_colours(range(1, 7)).values())) == 6
    assert len(budget_colours([5])) == 1


@given(st.lists(st.floats(-50, 250), min_size=1, max_size=12).map(sorted))
def test_labels_keep_apart_when_lines_end_together(wanted: list[float]) -> None:
    """Labels are in order, apart by the gap, and inside the panel whenever there is room."""
    placed = apart(wanted, 15, 0, 200)

    assert len(placed) == len(wanted)
    assert all(after - before > 15 - 1e-6 for before, after in pairwise(placed))
    assert -1e-6 <= placed[0] <= placed[-1] <= 200 + 1e-6


def test_labels_stay_where_they_are_when_there_is_room() -> None:
    """Nothing moves without a reason."""
    assert apart([10.0, 40.0, 80.0], 15, 0, 100) == [10.0, 40.0, 80.0]


def test_labels_share_the_panel_when_there_is_no_room() -> None:
    """Too many labels come closer than the gap, still in order and inside."""
    assert apart([50.0] * 5, 40, 0, 100) == pytest.approx([0, 25, 50, 75, 100])
