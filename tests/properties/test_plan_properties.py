"""Whatever is there, the plan counts every cell once and never makes what is there."""

from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.plan import Plan, State

ROOT = Path(__file__).parents[2]
OTHER = "f" * 64


@cache
def _lineage() -> Lineage:
    return trace(load_grid(ROOT, "smoke"), Science(ROOT))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan over any part of the archive and any local results."""
    lineage = _lineage()
    stages = [*lineage.cells.values(), *lineage.weights.values()]
    keys = [stage.record for stage in stages]
    keys += [stage.record.replace(stage.fingerprint, OTHER) for stage in stages]
    cells = lineage.grid.cells
    local = draw(
        st.dictionaries(
            st.sampled_from([cell.id for cell in cells]), st.sampled_from(["own", OTHER, ""])
        )
    )
    found = {
        name: lineage.cells[name].fingerprint if said == "own" else said
        for name, said in local.items()
    }
    wanted = draw(st.lists(st.sampled_from(cells), unique=True, min_size=1))
    index = frozenset(draw(st.sets(st.sampled_from(keys))))
    return Plan(lineage, index, found, tuple(wanted))


@examples(80, 400)
@given(plan=plans())
def test_plan_makes_nothing_when_it_is_there_already(plan: Plan) -> None:
    """A cell is made exactly when neither its record nor its own result is there."""
    for cell in plan.wanted:
        stage = plan.lineage.cells[cell.id]
        is_here = plan.local.get(cell.id) == stage.fingerprint
        is_archived = stage.record in plan.index
        is_made = plan.state(cell) in {State.MAKE, State.EVALUATE}
        assert is_made == (not is_here and not is_archived)
        assert plan.is_stale(cell) <= is_made


@examples(80, 400)
@given(plan=plans())
def test_plan_line_counts_each_cell_once_when_printed(plan: Plan) -> None:
    """Current, restored and made add up to the cells that were asked for."""
    words = plan.line().splitlines()[0].replace(",", "").split()
    number = {
        word: int(words[at + 1]) for at, word in enumerate(words) if word in {"restore", "make"}
    }
    current = int(words[words.index("current") - 1])

    assert current + number["restore"] + number["make"] == len(plan.wanted)


@examples(40, 200)
@given(plan=plans())
def test_plan_shrinks_when_a_record_is_added(plan: Plan) -> None:
    """One more deposit never makes another cell necessary."""
    for cell in plan.wanted[:3]:
        record = plan.lineage.cells[cell.id].record
        more = Plan(plan.lineage, plan.index | {record}, plan.local, plan.wanted)
        assert more.state(cell) in {State.CURRENT, State.RESTORE}
        for other in plan.wanted:
            if other != cell:
                assert more.state(other) is plan.state(other)
