"""What a plan costs, and the largest part of it that some money buys."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgrid import budget, forecast
from quantgrid.costs import block_costs
from quantgrid.costs import total as total_of_blocks
from quantgrid.devices import load_device
from quantgrid.errors import BudgetRefusal
from quantgrid.forecast import Rate, Work, with_needs
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.main import dispatch
from quantgrid.plan import Plan
from quantgrid.proposal import propose
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Cost, Promise
from quantgrid.select import choose
from quantgrid.settings import Money
from quantgrid.spec import Cell
from quantgrid.store.folder import FolderStore


def second_each(_: Cell) -> Rate:
    """A second for each job, step and sequence."""
    return Rate(start_s=1.0, step_s=1.0, quantise_s=1.0, sequence_s=1.0)


@pytest.fixture(scope="module")
def smoke(root: Path) -> Lineage:
    """14 cells on two bases of one trunk."""
    return trace(load_grid(root, "smoke"), Science(root))


def fresh(lineage: Lineage, *, made: frozenset[str] = frozenset()) -> Plan:
    """A plan of a whole grid, with some records made."""
    return Plan(lineage, made, {}, lineage.grid.every)


def test_shared_work_is_counted_once_when_cells_share_it(smoke: Lineage) -> None:
    """16 jobs: two milestones, of which the second goes on from the first, and 14 cells."""
    found = forecast.jobs(fresh(smoke), second_each)

    milestones = [work for work in found.values() if work.key.startswith("trunks/")]
    assert [(work.seconds, work.parent) for work in milestones] == [
        (1 + 8, None),
        (1 + 8, milestones[0].key),
    ]
    base = found["n0-t40k-s0/none"]
    assert (base.parent, base.seconds) == (milestones[1].key, 1 + 4 + 32)
    assert found["n0-t40k-s0/gptq-w3g32-noclip"].seconds == 1 + 1 + 1 * 0 + 32
    assert len(found) == 16


def test_archived_work_costs_nothing_when_the_archive_has_it(smoke: Lineage) -> None:
    """A milestone, and the weights of a form whose evaluation is missing, are not made again."""
    cell = smoke.asked["n0-t20k-s0/rtn-w4row-noclip"]
    base, weights = smoke.bases[cell.base], smoke.weights[cell.id]
    milestone = smoke.milestones[cell.trunk.id, cell.milestone]
    made = frozenset({base.record, weights.record, milestone.record})

    found = forecast.jobs(replace(fresh(smoke, made=made), wanted=(cell,)), second_each)

    assert list(found.values()) == [Work(cell.id, None, 1 + 32, cell.id)]
    rest = forecast.jobs(fresh(smoke, made=made), second_each)
    assert rest["n0-t40k-s0/none"].parent is not None
    assert milestone.record not in rest


def test_guess_agrees_with_the_costs_of_blocks_when_nothing_is_made(root: Path) -> None:
    """Two ways through a grid of 1,008 cells count the same operations."""
    device = replace(load_device(root, "h100"), cell_s=0.0)
    grid = load_grid(root, "paper")

    jobs = forecast.jobs(fresh(trace(grid, Science(root))), forecast.guessed(device))
    hours = forecast.total(jobs, usd_per_hour=device.usd_per_hour).hours

    # blocks leave out the bases of a grid that asks only for their forms
    assert hours == pytest.approx(total_of_blocks(block_costs(grid, device)).hours, rel=0.02)


@st.composite
def forests(draw: st.DrawFn) -> dict[str, Work]:
    """Up to nine jobs, each after its parent; some have a cell."""
    found: dict[str, Work] = {}
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.sampled_from([None, *found]))
        cell = f"c{number}" if draw(st.booleans()) else None
        found[str(number)] = Work(str(number), parent, draw(st.integers(0, 9)), cell)
    return found


@settings(max_examples=150, deadline=None)
@given(forests(), st.integers(0, 40))
def test_no_other_choice_makes_more_cells_when_the_money_is_the_same(
    found: dict[str, Work], seconds: int
) -> None:
    """Against every choice of cells there is: none has more cells, none as many for less."""
    proposal = propose(found, seconds)

    with_cell = [work.key for work in found.values() if work.cell]
    choices = itertools.chain.from_iterable(
        itertools.combinations(with_cell, size) for size in range(len(with_cell) + 1)
    )
    sums = [cost(with_needs(found, keys)) for keys in choices]
    best = max((cells, -spent) for cells, spent in sums if spent <= seconds)
    assert (len(proposal.cells), -cost(proposal.jobs)[1]) == best
    assert proposal.jobs == with_needs(found, proposal.jobs)


def cost(jobs: dict[str, Work]) -> tuple[int, float]:
    """Cells and seconds of some jobs."""
    return sum(work.cell is not None for work in jobs.values()), sum(
        work.seconds for work in jobs.values()
    )


def budget_of(root: Path, tmp_path: Path, lineage: Lineage, **money: float) -> budget.Budget:
    """The budget of the smoke grid on the paid platform of this machine."""
    found = replace(
        load_settings(root, {"grid": "smoke"}),
        archive=str(tmp_path / "archive"),
        money=Money(**money),
    )
    return budget.of(found, load_platform(root, "paid-here"), fresh(lineage), tmp_path)


def test_plan_is_refused_with_the_numbers_when_it_costs_too_much(
    root: Path, tmp_path: Path, smoke: Lineage
) -> None:
    """By grid, by cell and by the hour; what is allowed passes."""
    budget_of(root, tmp_path, smoke, max_usd_per_grid=1).refuse_too_much()

    for money, told in [
        ({"max_usd_per_grid": 0.005}, r"the grid would cost \$0.02 .* and may cost \$0.01"),
        ({"max_usd_per_grid": 1, "max_usd_per_cell": 0.001}, r"a cell would cost \$0.00"),
        ({"max_usd_per_grid": 1, "cents_per_hour": 99}, r"100 cents an hour, .* may cost 99"),
    ]:
        with pytest.raises(BudgetRefusal, match=told):
            budget_of(root, tmp_path, smoke, **money).refuse_too_much()


def test_money_that_is_spent_is_gone_when_the_rest_is_planned(
    root: Path, tmp_path: Path, smoke: Lineage
) -> None:
    """The register of the archive knows what the machines of this grid, and of no other, cost."""
    register = Register(FolderStore(tmp_path / "archive"))
    for nonce, grid in (("a" * 12, "smoke"), ("b" * 12, "other")):
        register.promise(Promise(nonce, "s" * 12, grid, 0, 3600, 900_000))
        register.charge(Cost(nonce, 0, 3600, 900_000))

    found = budget_of(root, tmp_path, smoke, max_usd_per_grid=0.91)

    assert found.spent_usd == pytest.approx(0.9)
    assert "$0.90 of it spent" in found.problems()[0]
    assert 0 < len(found.proposal.cells) < 14
    late = budget_of(root, tmp_path, smoke, max_usd_per_grid=0.5)  # a cap below what was spent
    assert late.proposal.cells == ()
    with pytest.raises(BudgetRefusal, match=r"\(\$0.90 of it spent\) and may cost \$0.50"):
        late.refuse_too_much()


def test_proposal_can_be_typed_when_a_part_fits(
    root: Path, tmp_path: Path, smoke: Lineage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its expression chooses exactly its cells, and its price is within the money."""
    for cents in range(3):
        found = budget_of(root, tmp_path, smoke, max_usd_per_grid=cents / 100)
        if not found.proposal.cells:
            continue
        chosen = choose(smoke.grid.every, found.select)
        assert {cell.id for cell in chosen} == set(found.proposal.cells)

    options = ["budget", "--root", str(root), "--grid", "smoke", "--platform", "paid-here"]
    options += ["--archive", str(tmp_path / "archive"), "--max-usd", "0.012"]
    assert dispatch([*options, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert dispatch([*options, "--targets"]) == 0
    targets = capsys.readouterr().out.split()
    assert targets == [f"results/{cell}/result.json" for cell in facts["proposal"]["cells"]]
    assert dispatch(options) == 0
    said = capsys.readouterr().out
    assert f"fits: {len(targets)} of 14 cells for $0.01" in said
    assert facts["proposal"]["select"] in said


@pytest.mark.parametrize("wrong", [["--max-usd", "nan"], ["--max-usd=-1"], ["--money", "{bad"]])
def test_budget_is_no_number_when_money_is_mistyped(
    root: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    """The option is named, as for every other one."""
    with pytest.raises(SystemExit) as caught:
        dispatch(["budget", "--root", str(root), *wrong])

    assert caught.value.code == 2
    assert f"argument {wrong[0].partition('=')[0]}:" in capsys.readouterr().err


def test_price_is_seen_when_it_changes(root: Path, tmp_path: Path, smoke: Lineage) -> None:
    """Twice the price is twice the dollars, and the hours stay."""
    found = budget_of(root, tmp_path, smoke, max_usd_per_grid=1)
    assert found.device is not None
    dearer = forecast.total(found.proposal.jobs, usd_per_hour=2 * found.device.usd_per_hour)

    assert dearer.usd == pytest.approx(2 * found.forecast.usd)
    assert dearer.hours == found.forecast.hours
