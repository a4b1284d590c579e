"""The plan says of every cell what it needs, from fingerprints alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid.lineage import ABSENT, Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.plan import Plan, State
from quantgrid.spec import Cell

OTHER = "f" * 64


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """The smoke grid: 7 forms of 2 bases."""
    return trace(load_grid(root, "smoke"), Science(root))


def _plan(
    lineage: Lineage, *, index: set[str] = frozenset(), local: Mapping[str, str] = {}
) -> Plan:
    return Plan(lineage, frozenset(index), local, lineage.grid.cells)


def _keys(lineage: Lineage, cell: Cell) -> tuple[str, str, str]:
    """Record of the weights, of the cell, and of the cell under another fingerprint."""
    own = lineage.cells[cell.id]
    stale = own.record.replace(own.fingerprint, OTHER)
    return lineage.weights[cell.id].record, own.record, stale


WHERE = {
    # (archived: weights, cell, other cell), local result -> state, stale, folded over
    ((0, 0, 0), None): (State.MAKE, False, False),
    ((1, 0, 0), None): (State.EVALUATE, False, False),
    ((1, 1, 0), None): (State.RESTORE, False, False),
    ((0, 1, 0), None): (State.RESTORE, False, False),
    ((0, 0, 1), None): (State.MAKE, True, False),
    ((1, 0, 1), None): (State.EVALUATE, True, False),
    ((1, 1, 1), None): (State.RESTORE, False, False),
    ((0, 0, 0), "own"): (State.CURRENT, False, False),
    ((1, 1, 1), "own"): (State.CURRENT, False, False),
    ((0, 0, 0), "other"): (State.MAKE, True, True),
    ((1, 0, 0), "other"): (State.EVALUATE, True, True),
    ((1, 1, 0), "other"): (State.RESTORE, False, True),
    ((0, 0, 0), "unreadable"): (State.MAKE, False, True),
    ((1, 1, 0), "unreadable"): (State.RESTORE, False, True),
    ((0, 0, 1), "unreadable"): (State.MAKE, True, True),
}


@pytest.mark.parametrize("where", WHERE, ids=str)
def test_plan_tells_the_state_when_it_looked_everywhere(
    lineage: Lineage, where: tuple[tuple[int, int, int], str | None]
) -> None:
    """Every place that a cell's records can be in has one state."""
    there, said = where
    cell = lineage.grid.cells[1]
    own = lineage.cells[cell.id].fingerprint
    index = {key for key, is_there in zip(_keys(lineage, cell), there, strict=True) if is_there}
    fingerprints = {"own": own, "other": OTHER, "unreadable": ""}
    local = {cell.id: fingerprints[said]} if said else {}

    plan = _plan(lineage, index=index, local=local)

    assert (plan.state(cell), plan.is_stale(cell), plan.is_folded_over(cell)) == WHERE[where]


def test_plan_ignores_the_rest_when_only_one_cell_is_archived(lineage: Lineage) -> None:
    """What one cell has says nothing of its neighbours."""
    first, *others = lineage.grid.cells
    plan = _plan(lineage, index=set(_keys(lineage, first)))

    assert plan.state(first) is State.RESTORE
    assert {plan.state(cell) for cell in others} == {State.MAKE}
    assert not any(plan.is_stale(cell) for cell in others)


def test_plan_line_counts_the_wanted_when_some_are_left_out(lineage: Lineage) -> None:
    """One line says how many are current, restored, made, evaluated and stale."""
    cells = lineage.grid.cells
    keys = [_keys(lineage, cell) for cell in cells]
    index = {keys[1][1], keys[2][0], keys[3][2]}
    local = {cells[0].id: lineage.cells[cells[0].id].fingerprint}

    line = replace(_plan(lineage, index=index, local=local), wanted=cells[:5]).line()

    assert line.splitlines() == [
        "plan smoke: 5 cells: 1 current (1 not in the archive), restore 1, "
        "make 3 (1 by evaluation only), stale 1",
        f"stale: {cells[3].id}: older records stay in the archive and out of the table",
    ]


def test_plan_line_names_five_when_many_are_stale(lineage: Lineage) -> None:
    """Long lists are cut, and say by how many."""
    plan = _plan(lineage, local={cell.id: OTHER for cell in lineage.grid.cells})

    first, second = plan.line().splitlines()

    assert first == "plan smoke: 14 cells: 0 current, restore 0, make 14, stale 14"
    assert second.count("/") == 5
    assert "and 9 more" in second


def test_plan_names_unwritten_methods_when_their_cells_must_be_made(lineage: Lineage) -> None:
    """A method without a module is named with its cells, unless the archive has them."""
    absent = {
        name: stage._replace(science=ABSENT) if "gptq-w3" in name else stage
        for name, stage in lineage.weights.items()
    }
    cells = [cell for cell in lineage.grid.cells if "gptq-w3" in cell.id]
    without = replace(lineage, weights=absent)

    assert _plan(without).unwritten() == {"gptq": [cell.id for cell in cells]}
    archived = {_keys(lineage, cells[0])[1], _keys(lineage, cells[1])[0]}
    assert _plan(without, index=archived).unwritten() == {}
    assert _plan(lineage).unwritten() == {}
    elsewhere = tuple(cell for cell in lineage.grid.cells if cell not in cells)
    assert replace(_plan(without), wanted=elsewhere).unwritten() == {}
