"""Laws are data, evaluated where a grid can show them and nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid.report.laws import LAWS, TRAINED_ENOUGH, Growth, Law, lines, outcomes
from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.report.stats import find_contrast
from report_records import FORMS, N0, N1, demo_records, frame, write_grid

FAMILY = "n0 shakespeare"


def grid_of(folder: Path, records: dict[str, dict[str, object]]) -> Grid:
    """Write a grid and read it."""
    wanted, results = write_grid(folder, records)
    return read_grid(read_wanted(wanted), results)


def test_laws_hold_when_records_follow_the_research(demo: Grid) -> None:
    """Four laws at three budgets and three on growth, all above z = 3."""
    found = outcomes(demo)

    assert len(found) == 4 * 3 + 3
    assert all(outcome.difference.holds for outcome in found)


def test_laws_are_silent_when_models_are_undertrained(demo: Grid) -> None:
    """No budget below the floor is judged, not even as an end point of growth."""
    assert min(outcome.num_tokens for outcome in outcomes(demo)) == TRAINED_ENOUGH
    growth = [outcome for outcome in outcomes(demo) if " at " in outcome.left]
    assert {outcome.right.partition(" at ")[2] for outcome in growth} == {"400000"}
    assert {outcome.num_tokens for outcome in growth} == {1_600_000}


def test_law_fails_when_the_forms_are_swapped(demo: Grid) -> None:
    """A wrong law does not hold, and its difference is negative."""
    wrong = Law("RTN loses less than GPTQ", "gptq-w3g32-noclip", "rtn-w3g32-noclip")

    found = outcomes(demo, [wrong])

    assert [outcome.num_tokens for outcome in found] == [400_000, 800_000, 1_600_000]
    assert not any(outcome.difference.holds for outcome in found)
    assert all(outcome.difference.mean < 0 for outcome in found)


def test_difference_is_left_minus_right_when_paired(demo: Grid) -> None:
    """The outcome is the contrast of the two forms on the same bases."""
    law = LAWS[2]

    found = outcomes(demo, [law])[0]

    assert found.difference == find_contrast(
        demo.seeds_of(FAMILY, 400_000, law.left),  # type: ignore[union-attr]
        demo.seeds_of(FAMILY, 400_000, law.right),  # type: ignore[union-attr]
    )


def test_laws_are_left_out_when_a_form_is_absent(tmp_path: Path) -> None:
    """A grid without GPTQ says nothing about GPTQ."""
    forms = tuple(each for each in FORMS if each[0].method != "gptq")

    grid = grid_of(tmp_path, demo_records(forms=forms, seeds=1, sequences=64))

    assert {outcome.law for outcome in outcomes(grid)} == {
        "fewer bits lose more: RTN 2 and 3",
        "fewer bits lose more: RTN 3 and 4",
        "damage grows with tokens: RTN W3 g32",
        "damage grows with tokens: RTN W2 g32 asym",
    }


def test_laws_are_judged_per_family_when_the_grid_has_two_models(tmp_path: Path) -> None:
    """The same laws serve another grid: each model has its own outcomes."""
    budgets = {"x1": 10**6, "x2": 2 * 10**6}

    grid = grid_of(tmp_path, demo_records(models=(N1, N0), budgets=budgets, sequences=32))

    found = [outcome.family for outcome in outcomes(grid, LAWS[2:3])]
    assert found == ["n0 shakespeare"] * 2 + ["n1 shakespeare"] * 2


def test_growth_is_left_out_when_one_budget_is_trained_enough(tmp_path: Path) -> None:
    """Growth needs two end points."""
    budgets = {"t200k": 200_000, "t400k": 400_000}

    grid = grid_of(tmp_path, demo_records(budgets=budgets, seeds=1, sequences=16))

    assert outcomes(grid, [Growth("growth", "rtn-w3g32-noclip")]) == []


def test_doubted_cells_enter_no_law_when_judged(tmp_path: Path) -> None:
    """One INVALID seed leaves two in every outcome at its budget."""
    records = demo_records(sequences=64)
    records["n0-t400k-s0/gptq-w3g32-noclip"]["verdict"] = "INVALID"

    grid = grid_of(tmp_path, records)

    seeds = {o.num_tokens: len(o.difference.by_seed) for o in outcomes(grid, LAWS[2:3])}
    assert seeds == {400_000: 2, 800_000: 3, 1_600_000: 3}


def test_frame_says_no_when_a_law_fails(demo: Grid) -> None:
    """`holds` is yes only above three standard errors."""
    good = Law("good", "rtn-w3g32-noclip", "gptq-w3g32-noclip")
    wrong = replace(good, name="wrong", left=good.right, right=good.left)

    table = frame(lines(outcomes(demo, [good, wrong])))

    assert table.groupby("law")["holds"].unique().map(list).to_dict() == {
        "good": ["yes"],
        "wrong": ["no"],
    }
    assert list(table.columns[:8]) == [
        "law", "family", "tokens", "left", "right", "difference", "se", "z"
    ]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_laws_compare_one_grid_when_methods_differ(law: Law | Growth) -> None:
    """GPTQ is compared with RTN only on the same grid (research, section 1.3)."""
    if isinstance(law, Law) and law.right.startswith("gptq-"):
        assert law.left == law.right.replace("gptq-", "rtn-")
