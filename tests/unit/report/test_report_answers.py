"""The page's answers match the table, computed from its CSV in another way."""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quantgrid.report import answers, labels, prose
from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.report.table import csv_bytes, lines
from report_records import FORMS, demo_records, write_grid

if TYPE_CHECKING:
    import pandas as pd


@pytest.fixture(scope="module")
def table(demo: Grid) -> "pd.DataFrame":
    """The written table."""
    import pandas as pd  # half a second, for these tests alone

    return pd.read_csv(io.BytesIO(csv_bytes(lines(demo))))


def test_least_is_lowest_mean_when_read_from_the_table(demo: Grid, table: "pd.DataFrame") -> None:
    """At each width the named form has the lowest mean damage at the largest budget."""
    largest = table[(table["tokens"] == table["tokens"].max()) & (table["variant"] != "none")]
    means = largest.groupby(["bits", "variant"])["delta"].mean()

    found = {demo.forms()[least.variant].bits: least for least in answers.least_by_width(demo)}

    assert set(map(str, found)) == {"4", "3", "2", "ternary"}
    for bits, least in found.items():
        ranked = means[str(bits)].sort_values()
        assert least.variant == ranked.index[0]
        assert least.damage.mean == pytest.approx(ranked.iloc[0], abs=1e-6)
        if least.margin is not None:
            assert least.runner_up == ranked.index[1]
            assert least.margin.mean == pytest.approx(ranked.iloc[1] - ranked.iloc[0], abs=2e-6)


def test_least_has_no_margin_when_alone(demo: Grid) -> None:
    """A width with one form has nothing to compare with, and the sentence says so."""
    least = next(each for each in answers.least_by_width(demo) if each.variant.startswith("qat"))
    names = labels.form_labels(demo.forms())

    assert least.margin is None
    assert "only form" in prose.least_sentences([least], demo, names)[0]


def test_onset_is_first_clear_budget_when_damage_grows(demo: Grid) -> None:
    """The first budget whose damage exceeds the smallest's by z > 3, and no earlier one does."""
    onset = next(o for o in answers.onsets(demo) if o.variant == "rtn-w4row-noclip")

    assert (onset.smallest_tokens, onset.num_tokens) == (100_000, 400_000)
    assert onset.growth is not None
    assert onset.growth.holds


def test_onset_is_none_when_damage_is_flat(tmp_path: Path) -> None:
    """A form whose damage does not grow is said not to."""
    flat = (FORMS[0], (FORMS[6][0], 0.08, 0.0))
    budgets = {"t800k": 800_000, "t1600k": 1_600_000}
    records = demo_records(budgets=budgets, seeds=1, forms=flat, sequences=64)
    first, last = (records[f"n0-{b}-s0/{flat[1][0].id}"]["results"] for b in budgets)
    base, end = (records[f"n0-{b}-s0/none"]["results"] for b in budgets)
    last["validation"]["losses"] = [
        other + one - zero
        for other, one, zero in zip(
            end["validation"]["losses"],
            first["validation"]["losses"],
            base["validation"]["losses"],
            strict=True,
        )
    ]
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    (onset,) = answers.onsets(grid)

    assert onset.num_tokens is None
    assert prose.onset_sentences([onset], {onset.variant: "QAT"})[0].startswith("Not at all")


def grid_of(folder: Path, records: dict[str, dict[str, object]]) -> Grid:
    """Write a grid and read it."""
    wanted, results = write_grid(folder, records)
    return read_grid(read_wanted(wanted), results)


def course_of(folder: Path, *levels: float) -> answers.Onset:
    """How a form grows whose damage has these levels at doubling budgets."""
    records: dict[str, dict[str, object]] = {}
    for step, level in enumerate(levels):
        budget = {f"t{400 * 2**step}k": 400_000 * 2**step}
        form = (FORMS[6][0], level, 0.0)
        records |= demo_records(budgets=budget, seeds=2, forms=(FORMS[0], form), sequences=96)
    (onset,) = answers.onsets(grid_of(folder, records))
    return onset


@pytest.mark.parametrize(
    ("levels", "course", "highest"),
    [
        ((0.02, 0.05, 0.10), "grows", 1_600_000),
        ((0.02, 0.10, 0.05), "falls", 800_000),
        ((0.10, 0.05, 0.02), "falls", 400_000),
    ],
)
def test_course_is_told_when_damage_grows_or_falls(
    tmp_path: Path, levels: tuple[float, ...], course: str, highest: int
) -> None:
    """Growth to the end, a peak before it, and a fall from the start are told apart."""
    onset = course_of(tmp_path, *levels)

    assert (onset.course, onset.highest_tokens) == (course, highest)
    (sentence, *_) = prose.onset_sentences([onset], {onset.variant: "QAT"})
    assert ("still growing" in sentence) == (course == "grows")
    assert ("then falling" in sentence) == (course == "falls")


def test_course_is_level_when_the_last_budgets_are_alike(tmp_path: Path) -> None:
    """Within noise the sentence claims neither growth nor fall at the largest budget."""
    records = demo_records(
        budgets={"t400k": 400_000, "t800k": 800_000},
        seeds=1,
        forms=(FORMS[0], (FORMS[6][0], 0.05, 0.0)),
        sequences=4,
    )
    (onset,) = answers.onsets(grid_of(tmp_path, records))

    assert onset.course == "level"


def test_onset_may_be_earlier_when_it_is_the_second_budget(tmp_path: Path) -> None:
    """The smallest budget limits the answer, and the sentence says so; later it does not."""
    second, third = (
        course_of(tmp_path / str(rank), *levels)
        for rank, levels in enumerate([(0.02, 0.05, 0.1), (0.02, 0.02, 0.1)])
    )
    names = {second.variant: "QAT"}

    assert second.is_earliest
    assert "may start earlier" in prose.onset_sentences([second], names)[-1]
    assert third.num_tokens == 1_600_000
    assert len(prose.onset_sentences([third], names)) == 1


def test_fewer_bits_win_when_the_table_says_so(demo: Grid, table: "pd.DataFrame") -> None:
    """Every inversion has the larger damage at the form of more bits, and margins descend."""
    means = table.groupby(["variant", "tokens"])["delta"].mean()
    found = answers.inversions(demo, demo.families()[-1])

    assert {each.fewer for each in found} == {"qat-ternary-row-absmean"}
    for each in found:
        assert all(means[each.fewer][at] < means[each.more][at] for at in each.budgets)
        assert each.margin.mean == pytest.approx(
            means[each.more][each.num_tokens] - means[each.fewer][each.num_tokens], abs=2e-6
        )
        assert each.margin.holds
    assert [each.margin.mean for each in found] == sorted(
        (each.margin.mean for each in found), reverse=True
    )


def test_equals_are_counted_when_sizes_are_alike(demo: Grid, table: "pd.DataFrame") -> None:
    """The sentence begins with how many cells have the size, and ends with the last budget."""
    good = table[(table["variant"] != "none") & (table["delta"] <= 0.05)]
    same = good[good["total_bytes"] == good["total_bytes"].min()]
    choice = answers.find_smallest(demo.cells)
    assert choice is not None

    how, reach = prose.smallest_sentences(choice, demo, labels.form_labels(demo.forms()))

    assert len(choice.equals) == len(same) > 1
    assert how.startswith(f"{len(same)} cells within 0.05 nats share the smallest size, ")
    last = labels.tokens(same[same["variant"] == choice.cell.variant]["tokens"].max())
    assert reach.startswith(f"{last} tokens is the largest budget at which ")
    assert re.search(
        r"at 1.6\sM, the largest of the grid, the smallest is seed \d of GPTQ W", reach
    )


def test_smallest_is_fewest_bytes_when_read_from_the_table(
    demo: Grid, table: "pd.DataFrame"
) -> None:
    """Fewest bytes among quantised cells within the tolerance; of those, the lowest loss."""
    good = table[(table["variant"] != "none") & (table["delta"] <= 0.05)]

    found = answers.find_smallest(demo.cells)

    assert found is not None
    assert found.cell.id == good.sort_values(["total_bytes", "loss"])["cell"].iloc[0]


def test_smallest_at_each_budget_matches_the_table(demo: Grid, table: "pd.DataFrame") -> None:
    """The same at each budget."""
    good = table[(table["variant"] != "none") & (table["delta"] <= 0.05)]
    ranked = good.sort_values(["total_bytes", "loss"]).groupby("tokens")["cell"].first()

    chosen = answers.smallest_by_budget(demo)
    found = {tokens: choice.cell.id for _, tokens, choice in chosen if choice}

    assert found == ranked.to_dict()


def test_smallest_is_nobody_when_all_lose_too_much(tmp_path: Path) -> None:
    """The base itself is no answer; the sentence says that there is none."""
    records = demo_records(
        budgets={"t400k": 400_000}, forms=(FORMS[0], (FORMS[6][0], 0.5, 0.0)), sequences=16
    )
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    assert answers.find_smallest(grid.cells) is None
    assert prose.smallest_sentences(None, grid, {})[0].startswith("No quantised cell")


@pytest.mark.parametrize(("seeds", "kept"), [(1, "the one seed of"), (3, "3 of 3 seeds of")])
def test_reach_is_one_sentence_when_there_is_one_budget(
    tmp_path: Path, seeds: int, kept: str
) -> None:
    """No budget is the largest of one."""
    records = demo_records(budgets={"t100k": 100_000}, forms=FORMS[:2], seeds=seeds, sequences=16)
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)
    choice = answers.find_smallest(grid.cells)

    reach = prose.smallest_sentences(choice, grid, labels.form_labels(grid.forms()))[-1]

    assert reach.startswith("At 100\N{NO-BREAK SPACE}k tokens, the largest budget, ")
    assert f"{kept} RTN W4 row" in reach
    assert "of the grid" not in reach


def test_doubted_cell_is_not_the_smallest_when_judged(tmp_path: Path) -> None:
    """An INVALID cell wins nothing."""
    records = demo_records(budgets={"t100k": 100_000}, seeds=1, sequences=64)
    ternary = "n0-t100k-s0/qat-ternary-row-absmean"
    wanted, results = write_grid(tmp_path / "all", records)
    choice = answers.find_smallest(read_grid(read_wanted(wanted), results).cells)
    assert choice is not None
    assert choice.cell.id == ternary

    records[ternary]["verdict"] = "INVALID"
    wanted, results = write_grid(tmp_path / "judged", records)
    smallest = answers.find_smallest(read_grid(read_wanted(wanted), results).cells)

    assert smallest is not None
    assert smallest.cell.id == "n0-t100k-s0/gptq-w2g32-asym"


def test_tie_is_called_a_tie_when_not_told_apart(tmp_path: Path) -> None:
    """Two forms of one width within noise: the sentence does not name a winner."""
    tied = (FORMS[0], (FORMS[2][0], 0.008, 0.0), (FORMS[3][0], 0.008, 0.0))
    records = demo_records(budgets={"t800k": 800_000}, seeds=1, forms=tied, sequences=16)
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    (least,) = answers.least_by_width(grid)

    assert least.margin is not None
    assert not least.margin.holds
    sentence = prose.least_sentences([least], grid, labels.form_labels(grid.forms()))[0]
    assert "cannot be told apart" in sentence
