"""A plan leaves to others what they compute, and what waits for it."""

from pathlib import Path

import pytest

from quantgrid import workspace
from quantgrid.elsewhere import held_elsewhere
from quantgrid.hold import Chain, Terms, new_holder
from quantgrid.job import Stage
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.plan import Plan
from quantgrid.store.folder import FolderStore


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """The smoke grid: 7 forms of 2 bases."""
    return trace(load_grid(root, "smoke"), Science(root))


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store."""
    return FolderStore(tmp_path / "archive")


def hold(store: FolderStore, stage: Stage, place: Path, copy: str = "other") -> None:
    """Somebody computes a stage."""
    terms = Terms("a cell", new_holder(str(place), copy, "lock"), 600.0)
    Chain(store, stage.fingerprint).take(terms)


def test_cells_wait_for_others_when_their_base_is_held(
    lineage: Lineage, store: FolderStore, tmp_path: Path
) -> None:
    """All cells of a held base wait, no cell of another one, and none when it is archived."""
    base = next(iter(lineage.bases))
    hold(store, lineage.bases[base], Path("/elsewhere"))

    found = held_elsewhere(lineage, frozenset(), store, tmp_path)

    made_of_it = {
        cell.id
        for cell in lineage.grid.cells
        if cell.base == base and cell.form.method in {"none", "rtn", "gptq"}
    }
    assert made_of_it <= set(found)
    assert {cell.rpartition("/")[0] for cell in found} == {base}
    archived = frozenset({lineage.bases[base].record})
    assert held_elsewhere(lineage, archived, store, tmp_path) == {}


def test_cells_need_no_grandparent_when_their_parent_is_archived(
    lineage: Lineage, store: FolderStore, tmp_path: Path
) -> None:
    """Who trains a trunk anew holds up what starts from it, and no form of an archived base."""
    cell = next(cell for cell in lineage.grid.cells if cell.form.method == "rtn")
    trained = next(
        each for each in lineage.grid.cells if each.base == cell.base and each.form.method == "qat"
    )
    hold(store, lineage.milestones[cell.trunk.id, cell.milestone], Path("/elsewhere"))

    found = held_elsewhere(lineage, frozenset({lineage.bases[cell.base].record}), store, tmp_path)

    assert trained.id in found
    assert cell.id not in found


def test_cells_are_our_own_when_this_working_copy_holds_them(
    lineage: Lineage, store: FolderStore, tmp_path: Path
) -> None:
    """What a runner of this working copy still computes is waited for, not left out."""
    stage = next(iter(lineage.cells.values()))
    hold(store, stage, tmp_path, workspace.copy_id(tmp_path))

    assert held_elsewhere(lineage, frozenset(), store, tmp_path) == {}
    assert held_elsewhere(lineage, frozenset(), store, tmp_path / "other")


def test_cells_are_asked_for_again_when_a_machine_of_the_plan_s_platform_holds_them(
    lineage: Lineage, store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their task is found in the register; what another platform computes is left to it."""
    monkeypatch.setenv("QG_MACHINE", f"runpod {'a' * 64} {'1' * 12}")
    hold(store, next(iter(lineage.cells.values())), Path("/machine/copies/1"))

    assert held_elsewhere(lineage, frozenset(), store, tmp_path, "runpod") == {}
    assert held_elsewhere(lineage, frozenset(), store, tmp_path, "modal")
    assert held_elsewhere(lineage, frozenset(), store, tmp_path)


def test_plan_says_who_when_cells_are_left_out(
    lineage: Lineage, store: FolderStore, tmp_path: Path
) -> None:
    """The line counts them, the sentence names the holder, and the rest is made."""
    cell = lineage.grid.cells[-1]
    hold(store, lineage.cells[cell.id], Path("/elsewhere"))
    plan = Plan(lineage, frozenset(), {}, lineage.grid.cells)

    left = plan.without(held_elsewhere(lineage, frozenset(), store, tmp_path))

    line, sentence = left.line().splitlines()
    count = len(lineage.grid.cells)
    assert line.startswith(f"plan smoke: {count} cells: 0 current, restore 0, make {count - 1}")
    assert "held elsewhere 1, stale 0" in line
    assert "held elsewhere: 1 cell is computed" in sentence
    assert "in /elsewhere, since" in sentence
    assert cell not in left.wanted
