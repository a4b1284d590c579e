"""Each cell stands as ledger, archive, failures, holds and the controller say, in this order."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from core_parts import BOUND_S, CLOCK, archive_in, body, put
from quantgrid import atomic, failures, judging, layout, ledger
from quantgrid.archive.record import sealed
from quantgrid.diagnosis import Diagnosis
from quantgrid.errors import FailureClass
from quantgrid.gridlook import look
from quantgrid.gridmap import State
from quantgrid.hold import Chain, Terms, new_holder
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid, load_settings

CELL, OTHER = "n0-t20k-s0/none", "n0-t20k-s0/rtn-w4row-noclip"


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """What the cells of the smoke grid are made from."""
    return trace(load_grid(root, "smoke"), Science(root))


class Desk:
    """A working copy without results; what is there is put there."""

    def __init__(self, folder: Path, root: Path, lineage: Lineage) -> None:
        self.folder, self.lineage = folder, lineage
        for name in ("config", "scripts", "src"):
            (folder / name).symlink_to(root / name)

    def record(self, cell: str, **changes: object) -> dict[str, object]:
        """The record that the grid means by a cell."""
        own = {"fingerprint": self.lineage.cells[cell].fingerprint}
        return {**body("cells", cell), **own, **changes}

    def archive(self, cell: str, **changes: object) -> None:
        """Archive a record of it."""
        put(archive_in(self.folder), self.folder / "out", self.record(cell, **changes))

    def fold(self, cell: str, **changes: object) -> None:
        """Bring it into ledger and results."""
        record = sealed(self.record(cell, **changes))
        ledger.enter(self.folder / layout.LEDGER, self.folder / layout.LEDGER_LOCK, record)
        base, variant = cell.split("/")
        path = layout.RESULT.format(base=base, variant=variant)
        atomic.publish_json(self.folder / path, record)

    def fail(self, cell: str) -> None:
        """Remember that its weights failed."""
        stage = self.lineage.weights[cell]
        told = Diagnosis("import", FailureClass.CODE, "ImportError", "no module", ())
        facts = {"cell": cell, "stage": stage.name, "fingerprint": stage.fingerprint}
        failures.keep(self.folder, failures.failure_of(told, **facts))

    def trunk(self) -> str:
        """The milestone that the cell's base is made from."""
        keys = self.lineage.bases[CELL.split("/")[0]].parents.values()
        return next(map(layout.owner_of, keys))

    def states(self, *running: str) -> dict[str, State]:
        """How the cells stand."""
        found = look(self.folder, load_settings(self.folder, {"grid": "smoke"}), set(running))
        return {f"{spot.base}/{spot.variant}": spot.state for spot in found.spots}


@pytest.fixture
def desk(tmp_path: Path, root: Path, lineage: Lineage) -> Desk:
    """A desk on which nothing was run."""
    return Desk(tmp_path, root, lineage)


def test_cells_wait_when_nothing_was_run(desk: Desk) -> None:
    """All of them."""
    assert Counter(desk.states().values()) == {State.WAITING: 14}


def test_cells_behind_a_failed_milestone_wait_for_it_and_for_no_controller(desk: Desk) -> None:
    """A milestone goes on from an earlier one: whoever starts a controller is refused there."""
    (trunk, first), (_, second) = sorted(desk.lineage.milestones)
    stage = desk.lineage.milestones[trunk, first]
    told = Diagnosis("import", FailureClass.CODE, "ImportError", "no module", ())
    facts = {"cell": f"{trunk}/{first}", "stage": stage.name, "fingerprint": stage.fingerprint}
    failures.keep(desk.folder, failures.failure_of(told, **facts))

    found = look(desk.folder, load_settings(desk.folder, {"grid": "smoke"}), set())

    waits = [f"{trunk}/{second}, which waits for {trunk}/{first}, which failed"]
    assert [why for why, _ in found.waits] == waits


def test_cells_stand_by_their_verdict_when_they_are_folded(desk: Desk) -> None:
    """The ledger has it; a result that it does not know is not done."""
    for cell, verdict in ((CELL, "VALID"), (OTHER, "SUSPECT"), ("n0-t40k-s0/none", "INVALID")):
        desk.fold(cell, verdict=verdict)
    (desk.folder / layout.LEDGER).read_text()

    states = desk.states()

    assert (states[CELL], states[OTHER]) == (State.DONE, State.SUSPECT)
    assert states["n0-t40k-s0/none"] is State.INVALID


def test_forms_stand_as_their_base_does_when_it_is_worse(desk: Desk) -> None:
    """As in table and page, whether the ledger knows the base or the archive alone."""
    desk.fold(OTHER, verdict="VALID")
    desk.archive(CELL)
    record = archive_in(desk.folder).record(desk.lineage.cells[CELL].record)

    judging.rejected(archive_in(desk.folder), record, CLOCK, by="somebody", reason="half there")
    assert desk.states()[OTHER] is State.INVALID

    desk.fold(CELL, verdict="SUSPECT")
    assert desk.states()[OTHER] is State.SUSPECT


def test_cells_are_archived_when_the_result_is_not_here(desk: Desk) -> None:
    """Archived and never folded, or folded once and removed."""
    desk.archive(CELL)
    desk.archive(OTHER)
    desk.fold(OTHER)
    (desk.folder / layout.RESULT.format(base="n0-t20k-s0", variant=OTHER.split("/")[1])).unlink()

    states = desk.states()

    assert states[CELL] is states[OTHER] is State.ARCHIVED


def test_cells_are_archived_when_somebody_emptied_their_result(desk: Desk) -> None:
    """The next run brings it back: it is not done here."""
    desk.archive(CELL)
    desk.fold(CELL)
    base, variant = CELL.split("/")
    (desk.folder / layout.RESULT.format(base=base, variant=variant)).write_bytes(b"")

    assert desk.states()[CELL] is State.ARCHIVED


def test_cells_are_stale_when_only_another_definition_was_run(desk: Desk) -> None:
    """A record of another fingerprint."""
    desk.archive(CELL, fingerprint="e" * 64)

    assert desk.states()[CELL] is State.STALE


def test_cells_run_or_are_next_when_the_controller_says_so(desk: Desk) -> None:
    """The cell itself runs, also one that failed; what is made from it is next."""
    trunk = desk.trunk()

    states = desk.states(CELL, trunk)

    assert (states[CELL], states[OTHER]) == (State.RUNNING, State.NEXT)
    desk.fail(CELL)
    assert desk.states(CELL, trunk)[CELL] is State.RUNNING
    assert desk.states(trunk)[CELL] is State.FAILED


def test_cells_are_held_when_another_copy_computes_them(desk: Desk) -> None:
    """With a live claim in the archive's store."""
    stage = desk.lineage.cells[CELL]
    holder = new_holder("/elsewhere", "another", "attempt")
    Chain(archive_in(desk.folder).store, stage.fingerprint).take(Terms(CELL, holder, 60.0))

    assert desk.states()[CELL] is State.HELD


def test_waits_name_what_is_missing_when_cells_wait(desk: Desk) -> None:
    """The milestone first, and what that waits for; what runs is said to run."""
    settings = load_settings(desk.folder, {"grid": "smoke"})
    trunk = desk.trunk()

    def waits(*running: str, is_live: bool = False) -> dict[str, int]:
        return dict(look(desk.folder, settings, set(running), is_live=is_live).waits)

    assert waits()[f"{trunk}, which waits for the seal of shakespeare"] > 0
    recipe = desk.lineage.grid.corpus
    assert recipe
    names = {"corpus": recipe.name, "fp": recipe.digest}
    prepared, sealed_as = (each.format(**names) for each in (layout.PREPARED, layout.SENTINEL))
    atomic.publish(desk.folder / prepared, b"{}")
    atomic.publish(desk.folder / layout.log_of(sealed_as), b"refused: a shard is short.\n")
    assert waits()[f"{trunk}, which waits for the seal of shakespeare, which failed"] > 0
    assert waits(is_live=True)[f"{trunk}, which waits for the seal of shakespeare"] > 0
    atomic.publish(desk.folder / sealed_as, b"{}")
    assert waits()[f"{trunk}, which waits for a controller: none runs here"] > 0
    assert waits(is_live=True)[f"{trunk}, which waits for its turn"] > 0
    assert waits(trunk, is_live=True)[f"{trunk}, which runs"] > 0


def test_status_shows_map_or_why_there_is_none_when_called(desk: Desk) -> None:
    """For a person and as JSON; what cannot be meant is refused first, and nothing else is said."""
    desk.archive(CELL)
    elsewhere = desk.folder / "elsewhere"
    elsewhere.mkdir()

    def status(*options: str, where: Path = desk.folder) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "quantgrid", "status", *options]
        return subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=BOUND_S, check=False
        )

    text = status("--grid", "smoke").stdout
    data = json.loads(status("--grid", "smoke", "--json").stdout)
    odd, short = status("--grid", "somke"), status("--short", "--grid", "somke")
    odd_json = json.loads(status("--grid", "somke", "--json").stdout)
    bare = [status(*options, where=elsewhere) for options in ((), ("--short",), ("--json",))]
    (elsewhere / "config").mkdir()
    (elsewhere / layout.CONFIG).write_text("grid: [")
    broken = status(where=elsewhere)

    assert "grid smoke: 14 cells" in text
    assert "a 1 archived, not folded here" in text
    assert data["counts"] == {"archived": 1, "waiting": 13}
    assert data["cells"][CELL] == "archived"
    assert (odd.returncode, odd.stdout) == (78, "")
    assert odd.stderr.startswith("refused: 'somke' is no grid, did you mean 'smoke'?")
    assert (short.returncode, short.stdout) == (78, "")
    assert odd_json["cells"] is None
    assert [(each.returncode, each.stdout) for each in bare] == [(78, "")] * 3
    assert all("so this is no working copy" in each.stderr for each in bare)
    assert "No controller has run" in broken.stdout
    assert "no map: refused:" in broken.stdout
    assert max(map(len, broken.stdout.replace(str(elsewhere), "").splitlines())) <= 80
