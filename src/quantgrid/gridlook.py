"""How each cell of a grid stands, from ledger, archive, holds and what the controller told."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from quantgrid import common_jobs, judging, layout, ledger
from quantgrid.archive import Archive, opened
from quantgrid.elsewhere import held_elsewhere
from quantgrid.failures import remembered
from quantgrid.gridmap import Spot, State
from quantgrid.job import Stage
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import Settings, load_grid
from quantgrid.plan import Plan
from quantgrid.select import AnyCell, choose
from quantgrid.verdicts import Said, base_of, counting

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


def look(root: Path, settings: Settings, running: Set[str], *, is_live: bool = False) -> Look:
    """How the cells of a working copy stand.

    Done is what the ledger knows with the fingerprint that the grid means and whose result is here:
    a thousand records are not read for a look.

    Args:
        root: The working copy.
        settings: Its settings; `select` chooses cells.
        running: Owners of the jobs that run now: cells, and milestones as `<trunk>/<tokens>`.
        is_live: Whether a controller lives, which starts one job after the other.

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
    judge = _Judge(plan, rows, running, held, _Bases(lineage, rows, archive, index, {}))
    spots = tuple(Spot(cell.base, cell.variant, judge.state(cell)) for cell in cells)
    waiting = [cell for cell, spot in zip(cells, spots, strict=True) if spot.state in _WAITING]
    first = _first_wait(root, lineage, is_live=is_live)
    waits = Counter(judge.why(cell, first) for cell in waiting)
    return Look(settings.grid, spots, tuple(waits.most_common()))


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
        if path.is_file() and path.stat().st_size:  # an emptied one is brought back
            found[cell.id] = fingerprint if (cell.id, fingerprint) in rows else ""
    return found


def _first_wait(root: Path, lineage: Lineage, *, is_live: bool) -> str:
    """What the first job of a chain waits for."""
    recipe = lineage.grid.corpus
    if recipe:
        sentinel = root / layout.SENTINEL.format(corpus=recipe.name, fp=recipe.digest)
        if not sentinel.exists():
            failed = None if is_live else common_jobs.first_error(common_jobs.before(recipe), root)
            if failed:
                return f"the {failed[0].rule} of {recipe.name}, which failed"
            return f"the seal of {recipe.name}"
    return "its turn" if is_live else "a controller: none runs here"


class _Bases(NamedTuple):
    """What is said of bases: by the ledger, or by the archive where a base was never asked for."""

    lineage: Lineage
    rows: Mapping[tuple[str, str], Mapping[str, str]]
    archive: Archive
    archived: Set[str]
    known: dict[str, Said | None]

    def said_of(self, base: str) -> Said | None:
        """What is said of a base; None when it was not measured."""
        if base not in self.known:
            self.known[base] = self._find(base)
        return self.known[base]

    def _find(self, base: str) -> Said | None:
        stage = self.lineage.cells.get(base)
        if stage is None:
            return None
        if row := self.rows.get((base, stage.fingerprint)):
            return Said(row["verdict"])
        record = self.archive.find_record(stage.record) if stage.record in self.archived else None
        return judging.said_of(self.archive, record) if record else None


class _Judge(NamedTuple):
    """Says how a cell stands."""

    plan: Plan
    rows: Mapping[tuple[str, str], Mapping[str, str]]
    running: Set[str]
    held: Mapping[str, object]
    bases: _Bases

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
            base = base_of(cell.id)
            of_base = None if base == cell.id else self.bases.said_of(base)
            return _VERDICTS.get(counting(Said(row["verdict"]), of_base).word, State.DONE)
        return State.ARCHIVED if stage.record in self.plan.index else None

    def why(self, cell: AnyCell, first: str) -> str:
        """What a waiting cell waits for: the first thing that is missing, and what that waits for.

        Args:
            cell: The cell.
            first: What a job waits for that has all it is made from.
        """
        if now := sorted(self._parents(cell) & self.running):
            return f"{now[0]}, which runs"
        missing = sorted(self._parents(cell))
        if not missing:
            return first
        failed = self._failed_before(missing[0])
        return f"{missing[0]}, which waits for {f'{failed}, which failed' if failed else first}"

    def _failed_before(self, owner: str) -> str | None:
        """The newest milestone that one goes on from and that failed; None where none did."""
        stage = self._milestone(owner)
        before = map(layout.owner_of, stage.resume) if stage else ()
        failed = self.plan.failed
        return next(
            (o for o in before if (s := self._milestone(o)) and s.fingerprint in failed), None
        )

    def _milestone(self, owner: str) -> Stage | None:
        trunk, _, at = owner.rpartition("/")
        return self.plan.lineage.milestones.get((trunk, int(at))) if at.isdecimal() else None

    def _parents(self, cell: AnyCell) -> frozenset[str]:
        """Owners of what the cell is made from and the archive lacks."""
        lineage = self.plan.lineage
        weights = lineage.weights.get(cell.id)
        base = lineage.bases.get(cell.base)
        keys = {key for stage in (weights, base) if stage for key in stage.parents.values()}
        missing = {layout.owner_of(key) for key in keys if key not in self.plan.index}
        return frozenset(missing - {cell.id})
