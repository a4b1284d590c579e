"""What is current, what the archive restores, what must be made: pure, decided once at parse."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from quantgrid.archive import owners
from quantgrid.elsewhere import sentence
from quantgrid.errors import ConfigRefusal
from quantgrid.hold import Seen
from quantgrid.lineage import ABSENT, Lineage
from quantgrid.select import AnyCell
from quantgrid.spec import Cell
from quantgrid.wording import counted

_NAMED = 5


class State(StrEnum):
    """What a cell needs."""

    CURRENT = "current"
    RESTORE = "restore"
    EVALUATE = "evaluate"
    MAKE = "make"


@dataclass(frozen=True)
class Plan:
    """The state of every cell of a grid.

    Args:
        lineage: What each cell is made from.
        index: Keys of all records of the archive.
        local: Fingerprint of the local result of each cell that has one; empty when unreadable.
        wanted: The cells that were selected, without those that are left to others.
        failed: Fingerprints whose failure is remembered: they are not tried again.
        elsewhere: Selected cells that wait for another controller, with who that is.
    """

    lineage: Lineage
    index: frozenset[str]
    local: Mapping[str, str]
    wanted: tuple[AnyCell, ...]
    failed: frozenset[str] = frozenset()
    elsewhere: Mapping[str, Seen] = field(default_factory=dict)

    def without(self, elsewhere: Mapping[str, Seen]) -> "Plan":
        """The same plan, with cells that wait for others left to them."""
        held = {cell.id: elsewhere[cell.id] for cell in self.wanted if cell.id in elsewhere}
        left = tuple(cell for cell in self.wanted if cell.id not in held)
        return replace(self, wanted=left, elsewhere=held)

    def state(self, cell: AnyCell) -> State:
        """What a cell needs."""
        stage = self.lineage.cells[cell.id]
        if self.local.get(cell.id) == stage.fingerprint:
            return State.CURRENT
        if stage.record in self.index:
            return State.RESTORE
        weights = self.lineage.weights.get(cell.id)
        is_made = weights is not None and weights.record in self.index
        return State.EVALUATE if is_made else State.MAKE

    def is_stale(self, cell: AnyCell) -> bool:
        """Whether only results of other fingerprints exist for a cell."""
        if self.state(cell) not in {State.MAKE, State.EVALUATE}:
            return False
        return cell.id in self._archived or bool(self.local.get(cell.id))

    def is_folded_over(self, cell: AnyCell) -> bool:
        """Whether another local result, or an unreadable one, is in the way of a restored one."""
        return cell.id in self.local and self.state(cell) is not State.CURRENT

    def unwritten(self) -> dict[str, list[str]]:
        """Methods that no module of this source tree implements, with the cells that need them."""
        found: dict[str, list[str]] = {}
        for cell in self.wanted:
            if not isinstance(cell, Cell):
                continue
            is_made = self.state(cell) is State.MAKE
            if is_made and self.lineage.weights[cell.id].science == ABSENT:
                found.setdefault(cell.form.method, []).append(cell.id)
        return found

    @property
    def num_current(self) -> int:
        """Wanted cells whose local result is current."""
        return sum(self.state(cell) is State.CURRENT for cell in self.wanted)

    @property
    def num_unarchived(self) -> int:
        """Wanted cells whose current result exists here alone: losing it would lose the work."""
        cells = self.lineage.cells
        return sum(
            self.state(cell) is State.CURRENT and cells[cell.id].record not in self.index
            for cell in self.wanted
        )

    @property
    def num_to_make(self) -> int:
        """Wanted cells that a job must compute."""
        return sum(self.state(cell) in {State.MAKE, State.EVALUATE} for cell in self.wanted)

    @property
    def num_failed(self) -> int:
        """Wanted cells that would be made, and that failed before, or whose parents did."""
        return sum(
            self.state(cell) in {State.MAKE, State.EVALUATE} and self.has_failed(cell.id)
            for cell in (self.wanted if self.failed else ())
        )

    def has_failed(self, cell: str) -> bool:
        """Whether the cell failed, or what it is made from."""
        return bool(self.failed & self.made_from(cell))

    def made_from(self, cell: str) -> set[str]:
        """Fingerprints of the stages of a cell and of what they are made from."""
        made = [self.lineage.weights.get(cell), self.lineage.bases.get(cell.partition("/")[0])]
        stages = [self.lineage.cells[cell], *filter(None, made)]
        parents = {key for stage in stages for key in stage.parents.values()}
        own = {stage.fingerprint for stage in stages}
        return own | {key.rsplit("/", 2)[1] for key in parents}

    def line(self) -> str:
        """The plan in one line, and one line that names stale cells if there are any."""
        states = [self.state(cell) for cell in self.wanted]
        counts = {state: states.count(state) for state in State}
        stale = [cell.id for cell in self.wanted if self.is_stale(cell)]
        make = counts[State.MAKE] + counts[State.EVALUATE]
        text = (
            f"plan {self.lineage.grid.name}: {counted(len(states) + len(self.elsewhere), 'cell')}: "
            f"{counts[State.CURRENT]} current, restore {counts[State.RESTORE]}, make {make}"
        )
        if self.num_unarchived:
            text = text.replace(
                " current", f" current ({self.num_unarchived} not in the archive)", 1
            )
        if counts[State.EVALUATE]:
            text += f" ({counts[State.EVALUATE]} by evaluation only)"
        if self.elsewhere:
            text += f", held elsewhere {len(self.elsewhere)}"
        text += f", stale {len(stale)}"
        text += f", failed {self.num_failed}" if self.num_failed else ""
        more = [_stale_line(stale)] if stale else []
        more += [sentence(self.elsewhere)] if self.elsewhere else []
        return "\n".join([text, *more])

    @cached_property
    def _archived(self) -> frozenset[str]:
        return frozenset(owner for owner, _ in owners(self.index))


def refuse_unwritten(plan: Plan) -> None:
    """Refuse to start a grid some of whose methods do not exist.

    Raises:
        ConfigRefusal: naming the methods and an expression that leaves them out.
    """
    unwritten = plan.unwritten()
    if unwritten:
        counts = ", ".join(
            f"{method} ({counted(len(ids), 'cell')})" for method, ids in unwritten.items()
        )
        others = " and ".join(f"method != {method}" for method in unwritten)
        raise ConfigRefusal(
            f"no module under src/quantlm/methods implements {counts}, so nothing was started",
            do=f'Leave them out with --config select="{others}", or write the modules.',
        )


def _stale_line(stale: list[str]) -> str:
    more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
    return (
        f"stale: {', '.join(stale[:_NAMED])}{more}: "
        "older records stay in the archive and out of the table"
    )
