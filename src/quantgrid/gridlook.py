"""How each cell of a grid stands, from ledger, archive, holds and what the controller told."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout, ledger
from quantgrid.archive import opened
from quantgrid.elsewhere import held_elsewhere
from quantgrid.failures import remembered
from quantgrid.gridmap import Spot, State
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import Settings, load_grid
from quantgrid.plan import Plan
from quantgrid.select import AnyCell, choose

_VERDICTS = {"SUSPECT": State.SUSPECT, "INVALID": State.INVALID}


class Look(NamedTuple):
    """A grid as it stands.

    Args:
        grid: Its name.
        spots: Every selected cell.
        waits: What waiting cells wait for, with how many.
    """

    grid: str
    spots: tuple[Spot, ...]
    waits: tuple[tuple[str, int], ...]

    @property
    def counts(self) -> Mapping[State, int]:
        """Cells by state."""
        return Counter(spot.state for spot in self.spots)


def look(root: Path, settings: Settings, running: Set[str]) -> Look:
    """How the cells of a working copy stand.

    Done is what the ledger knows with the fingerprint that the grid means and whose result is here:
    a thousand records are not read for a look.

    Args:
        root: The working copy.
        settings: Its settings; `select` chooses cells.
        running: Owners of the jobs that run now: cells, and milestones as `<trunk>/<tokens>`.

    Raises:
        Refusal: when the configuration cannot be meant.
        PlatformFault: when the archive does not answer.
    """
    lineage = trace(load_grid(settings.root, settings.grid), Science(settings.root))
    archive = opened.of(settings, root)
    index = archive.index()
    cells = choose(lineage.grid.every, settings.select)
    rows = ledger.read(root / layout.LEDGER)
    local = _local(root, lineage, cells, rows)
    plan = Plan(lineage, index, local, cells, remembered(root))
    elsewhere = held_elsewhere(lineage, index, archive.store, root, settings.platform)
    held = plan.without(elsewhere).elsewhere
    judge = _Judge(plan, rows, running, held)
    spots = tuple(Spot(cell.base, cell.variant, judge.state(cell)) for cell in cells)
    waiting = [cell for cell, spot in zip(cells, spots, strict=True) if spot.state in _WAITING]
    return Look(settings.grid, spots, tuple(Counter(map(judge.why, waiting)).most_common()))


_WAITING = {State.WAITING, State.NEXT}


def _local(
    root: Path,
    lineage: Lineage,
    cells: Iterable[AnyCell],
    rows: Mapping[tuple[str, str], Mapping[str, str]],
) -> dict[str, str]:
    found = {}
    for cell in cells:
        fingerprint = lineage.cells[cell.id].fingerprint
        path = root / layout.RESULT.format(base=cell.base, variant=cell.variant)
        if path.exists():
            found[cell.id] = fingerprint if (cell.id, fingerprint) in rows else ""
    return found


class _Judge(NamedTuple):
    """Says how a cell stands."""

    plan: Plan
    rows: Mapping[tuple[str, str], Mapping[str, str]]
    running: Set[str]
    held: Mapping[str, object]

    def state(self, cell: AnyCell) -> State:
        """The first that applies, what happens now before what was."""
        if cell.id in self.running:
            return State.RUNNING
        if (done := self._done(cell)) is not None:
            return done
        if cell.id in self.held:
            return State.HELD
        if self.plan.has_failed(cell.id):
            return State.FAILED
        if self._parents(cell) & self.running:
            return State.NEXT
        return State.STALE if self.plan.is_stale(cell) else State.WAITING

    def _done(self, cell: AnyCell) -> State | None:
        stage = self.plan.lineage.cells[cell.id]
        row = self.rows.get((cell.id, stage.fingerprint))
        if self.plan.local.get(cell.id) == stage.fingerprint and row:
            return _VERDICTS.get(row["verdict"], State.DONE)
        return State.ARCHIVED if stage.record in self.plan.index else None

    def why(self, cell: AnyCell) -> str:
        """What a waiting cell waits for, the first thing that is missing."""
        if now := sorted(self._parents(cell) & self.running):
            return f"{now[0]}, which runs"
        missing = sorted(self._parents(cell))
        return f"{missing[0]}, which waits" if missing else "its turn"

    def _parents(self, cell: AnyCell) -> frozenset[str]:
        """Owners of what the cell is made from and the archive lacks."""
        lineage = self.plan.lineage
        weights = lineage.weights.get(cell.id)
        base = lineage.bases.get(cell.base)
        keys = {key for stage in (weights, base) if stage for key in stage.parents.values()}
        missing = {layout.owner_of(key) for key in keys if key not in self.plan.index}
        return frozenset(missing - {cell.id})
