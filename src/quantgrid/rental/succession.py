"""The next coordinator: rented by the one that runs, before its machine reaches the platform's cap.

All coordinators of a working copy have the same task, each in a lease of its own.  There is one
chain: whoever is not its newest link rents nothing, and gives way as soon as the newer one works.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import QuantgridError
from quantgrid.fingerprint import digest
from quantgrid.rental import bundle
from quantgrid.rental.lease import Lease, Phase
from quantgrid.rental.rounds import Wanted
from quantgrid.rental.tasks import (
    Task,
    find_hand_overs,
    find_left,
    hand_over_key,
    left_bytes,
    left_key,
)
from quantgrid.rental.tenant import Tenant

_IDLE_LINKS = 2
"""Coordinators in a row during which nothing came on, after which no further one is rented."""


class Shift(NamedTuple):
    """Which coordinator this is.

    Args:
        nonce: Of its machine.
        task: The task that it does, as all coordinators of the working copy do.
    """

    nonce: str
    task: Task

    @classmethod
    def parse(cls, mark: str) -> "Shift":
        """Read the mark that a machine gives its task, see `docs/formats/rental.md`."""
        nonce, job, number = mark.split(".")
        return cls(nonce, Task(job, int(number)))


class Succession:
    """The leases of the coordinators of a working copy, as one of them sees them.

    Args:
        tenant: Rents for the working copy.
        shift: Which coordinator looks.
        is_coordinator: Whether a lease is that of a coordinator of the working copy.
        wanted: From a subject to what is wanted of a further coordinator.
        say: Says something to a person.
    """

    def __init__(
        self,
        tenant: Tenant,
        shift: Shift,
        is_coordinator: Callable[[Lease], bool],
        wanted: Callable[[str], Wanted],
        say: Callable[[str], None],
    ) -> None:
        self._tenant, self._shift = tenant, shift
        self._is_coordinator, self._wanted, self._say = is_coordinator, wanted, say
        self._next = ""
        """The subject of the next coordinator, once it is rented here."""
        self._is_given_up = False

    def go(self, *, is_late: bool) -> bool:
        """One round; whether a newer coordinator works, so that this one gives way.

        Args:
            is_late: Whether the end of this machine is near.
        """
        if not self._tenant.rounds.go():
            return False
        mine = self._mine()
        newest = self._newest(mine)
        if newest is None and is_late and not self._is_given_up:
            self._try_renting()
        return newest is not None and newest.phase is Phase.RUNNING

    def awaits(self) -> bool:
        """One round; whether an earlier coordinator works, and will leave something behind."""
        is_read, mine = self._tenant.rounds.go(), self._mine()
        begin_s = mine.begin_s if mine else 0.0
        earlier = [each for each in self._others() if each.begin_s < begin_s]
        running = [each for each in earlier if each.phase is Phase.RUNNING]
        signs = self._tenant.rounds.register.signs(each.nonce for each in running)
        return not is_read or any(signs[each.nonce].exit is None for each in running)

    def take_up(self, root: Path) -> None:
        """Bring what the last coordinator left into the working copy of this one.

        Raises:
            DataFault: when a file is not what it was.
            PlatformFault: when the store does not answer.
        """
        store = self._tenant.store
        bundle.fetch_files(store, root, find_left(store, self._shift.task))

    def leave_behind(self, root: Path) -> bool:
        """Keep for the next one what no archive has: the receipts of corpora.

        Raises:
            PlatformFault: when the store does not answer.
        """
        store, task = self._tenant.store, self._shift.task
        known = sorted((root / layout.CORPUS_RECEIPTS).rglob("*.json"))
        names = [path.relative_to(root).as_posix() for path in known]
        items = bundle.put_files(store, root, names)
        key = left_key(task, len(find_hand_overs(store, task)), self._shift.nonce)
        store.put_once(key, left_bytes(items))
        return True

    def lead_s(self, left_s: float) -> float:
        """How long before the end of this machine the next one is asked for.

        A create and a boot may take that long; of a short life, a half.
        """
        limits = self._tenant.rounds.platform.limits
        return min(limits.create_s + limits.boot_s, left_s / 2)

    def leave(self) -> bool:
        """Give up the own lease: the platform is asked to end this machine; whether it was."""
        if mine := self._mine():
            self._tenant.rounds.cancel(mine.subject)
        return self._tenant.rounds.go() and mine is not None

    def dismiss(self) -> bool:
        """One round; whether no coordinator is left that was rented here, for all is done."""
        if self._next:
            self._tenant.rounds.cancel(self._next)
        is_read = self._tenant.rounds.go()
        return not self._next or (is_read and self._next not in self._tenant.rounds.open)

    # -- who there is -----------------------------------------------------------------------------

    def _mine(self) -> Lease | None:
        found = (each for each in self._coordinators() if each.nonce == self._shift.nonce)
        return next(found, None)

    def _others(self) -> Iterator[Lease]:
        return (each for each in self._coordinators() if each.nonce != self._shift.nonce)

    def _coordinators(self) -> Iterator[Lease]:
        return filter(self._is_coordinator, self._tenant.rounds.open.values())

    def _newest(self, mine: Lease | None) -> Lease | None:
        """The newest coordinator when it is another one; a planned one counts if it is ours."""
        begin_s = mine.begin_s if mine else 0.0
        newer = [each for each in self._others() if each.begin_s > begin_s]
        ours = [each for each in self._others() if each.subject == self._next]
        if self._next and not ours and not newer and self._is_over(self._next):
            self._say("the next coordinator did not come to work; `quantgrid launch` starts one.")
            self._next, self._is_given_up = "", True
        return max(newer or ours, key=lambda each: each.begin_s, default=None)

    def _is_over(self, subject: str) -> bool:
        lease = self._tenant.rounds.last.get(subject)
        return lease is not None and lease.phase.is_over

    # -- the next one -----------------------------------------------------------------------------

    def _try_renting(self) -> None:
        if self._next:
            return
        try:
            if self._comes_on():
                self._rent()
            else:
                self._is_given_up = True
                self._say(
                    f"no further coordinator: during {_IDLE_LINKS} of them no job ended and no "
                    "checkpoint was made.  `quantgrid leases` shows what there is."
                )
        except QuantgridError as error:
            self._say(f"the next coordinator is not rented yet: {error}")

    def _rent(self) -> None:
        queues, task = self._tenant.queues, self._shift.task
        queues.forget()
        queues.read()
        subject = queues.fresh(task)
        wanted = self._wanted(subject)
        queues.give(subject, task)
        self._tenant.rounds.want(wanted)
        self._next = subject

    def _comes_on(self) -> bool:
        """Write down how far all is; whether it came on during the last coordinators."""
        store, task, nonce = self._tenant.store, self._shift.task, self._shift.nonce
        told, now = find_hand_overs(store, task), self._progress()
        before = [progress for other, progress in told if other != nonce]
        if len(before) == len(told):
            store.put_once(hand_over_key(task, len(told) + 1, nonce, now), b"")
        return before[-_IDLE_LINKS:] != [now] * _IDLE_LINKS

    def _progress(self) -> str:
        """A digest of the tasks that ended and of the checkpoints of those that run."""
        register = self._tenant.rounds.register
        open_ = self._tenant.rounds.open.values()
        leases = [each for each in open_ if not self._is_coordinator(each)]
        signs = register.signs(each.nonce for each in leases)
        far = [(e.subject, max(e.checkpoint, signs[e.nonce].checkpoint)) for e in leases]
        return digest([len(register.ends), sorted(far)])[:16]
