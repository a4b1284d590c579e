"""Who rents machines for jobs: takes what is asked for, and says how it ended.

`Tenant.ask` returns at once and `Tenant.go` never raises, so that neither a slow create nor a
service that is down reaches the scheduler of Snakemake.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid.errors import PlatformFault, QuantgridError
from quantgrid.rental.collecting import Collector, Outcome
from quantgrid.rental.lease import End, Lease, Phase
from quantgrid.rental.packing import Kind, Load, placed
from quantgrid.rental.queues import Queues
from quantgrid.rental.rounds import Rounds, Wanted
from quantgrid.rental.tailing import Tails
from quantgrid.rental.tasks import Task, TaskOrder, task_key, told_key
from quantgrid.wording import counted

_MAX_LEASES = 4
"""Leases that one task is given to before it counts as the task that ends them."""
_NOT_YET = {Phase.PLANNED, Phase.INTENT}
_WORKS = {Phase.PLANNED, Phase.INTENT, Phase.CREATING, Phase.RECONCILE, Phase.BOOTING}


class Request(NamedTuple):
    """A job that is ready.

    Args:
        job: Its id.
        cell: For a person.
        grid: Whose money it is.
        kind: What a machine for it must be.
        order: Makes what a machine has to do; reads files and writes to the store.
    """

    job: str
    cell: str
    grid: str
    kind: Kind
    order: Callable[[], TaskOrder]


class Work(NamedTuple):
    """A job with its task in the store."""

    request: Request
    task: Task
    order: TaskOrder


class House(NamedTuple):
    """How many machines there may be, and how a lease is made.

    Args:
        machines: Of one kind at a time.
        ahead: Tasks that a machine has at a time.
        wanted: From subject, cell, grid and kind to a lease that is wanted.
        last: The same for a lease that nobody asked for any more: it ends at the next occasion.
        is_left: Whether a controller was one of this working copy, and is dead for sure.
        start: Runs a call somewhere else.
        say: Says something to a person.
    """

    machines: int
    ahead: int
    wanted: Callable[[str, str, str, Kind], Wanted]
    last: Callable[[Lease], Wanted]
    is_left: Callable[[str], bool]
    start: Callable[[Callable[[], None]], None]
    say: Callable[[str], None]


class Tenant:
    """Rents machines for jobs.

    Args:
        rounds: The controller of leases.
        collector: Brings ends home.
        root: The working copy.
        house: How many machines there may be, and how a lease is made.
    """

    def __init__(self, rounds: Rounds, collector: Collector, root: Path, house: House) -> None:
        self.rounds, self.collector, self.house = rounds, collector, house
        self.store = rounds.register.store
        self.queues = Queues(self.store)
        self.works: dict[Task, Work] = {}
        self.kinds: dict[str, Kind] = {}
        """The kinds of all leases that are wanted here."""
        self._adopted: set[str] = set()
        self._tails = Tails(self.store, root)
        self._asked: deque[Request] = deque()
        self._made: deque[Work] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._said = ""

    def ask(self, request: Request) -> None:
        """Want a job done; its outcome comes from a later `go`."""
        self._asked.append(request)

    def go(self) -> list[Outcome]:
        """One round; the jobs that ended."""
        for _ in range(len(self._asked)):
            request = self._asked.popleft()
            self.house.start(lambda request=request: self._make(request))  # type: ignore[misc]
        while self._made:
            work = self._made.popleft()
            self.works[work.task] = work
        try:
            self._go()
        except QuantgridError as error:  # nothing is concluded from what cannot be seen
            self._say(str(error))
        else:
            self._said = ""
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]

    def _go(self) -> None:
        if not self.rounds.go():
            raise PlatformFault(
                f"{self.rounds.platform.name} or the register of leases does not answer",
                do="Machines that run go on; asking again.",
            )
        self.queues.read()
        for work in list(self.works.values()):
            self._end(work)
        for subject in list(self.kinds):
            self._close(subject)
        self._adopt()
        self._place()
        self._tails.follow(self._running())

    # -- what is asked for ------------------------------------------------------------------------

    def _make(self, request: Request) -> None:
        """Find the task of a job, or write a new one; runs beside the rounds."""
        try:
            self._made.append(self._task(request))
        except PlatformFault as fault:
            self._say(str(fault))
            self._asked.append(request)
        except QuantgridError as error:
            self._outcomes.append(Outcome.failed(request.job, error))

    def _task(self, request: Request) -> Work:
        task, data = Task(request.job, 1), self.store.find(task_key(Task(request.job, 1)))
        while data is not None and self.store.find(told_key(task)) is not None:
            task = task._replace(number=task.number + 1)
            data = self.store.find(task_key(task))
        if data is None:
            order = request.order()
            self.store.put_once(task_key(task), order.to_bytes())
            data = self.store.find(task_key(task)) or order.to_bytes()
        return Work(request, task, TaskOrder.parse(data, task_key(task)))

    # -- what ended -------------------------------------------------------------------------------

    def _end(self, work: Work) -> None:
        try:
            end = self.collector.find_end(work.task)
            outcome = end and self.collector.collect(work.task, work.order, end)
        except PlatformFault as fault:  # asked again in the next round
            self._say(str(fault))
            return
        except QuantgridError as error:
            outcome = Outcome.failed(work.task.job, error)
        if outcome:
            self._finish(work, outcome)

    def _finish(self, work: Work, outcome: Outcome) -> None:
        """Say how a job ended, here and in the register, once."""
        del self.works[work.task]
        self._outcomes.append(outcome)
        with suppress(PlatformFault):  # then the next asker is told the same
            self.collector.tell(work.task)

    def _close(self, subject: str) -> None:
        """What becomes of the tasks of a lease that is over, unless another lease has them."""
        lease = self.rounds.last.get(subject)
        if lease is None or not lease.phase.is_over:
            return
        self.queues.forget()  # a coordinator gives its task to the next one
        self.queues.read()
        del self.kinds[subject]
        if lease.phase is Phase.SUCCESS:  # it was idle, and ended when this task came
            return
        tasks = [task for task in self.queues.of(subject) if task not in self._given()]
        left = [self.works[task] for task in tasks if task in self.works]
        for work in left if lease.end is End.CANCELLED else left[:1]:
            self._finish(work, _lost(work, lease))

    # -- who does it ------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Step what a dead controller left: it ends at its next occasion, and is paid for."""
        for subject, lease in self.rounds.open.items():
            is_known = subject in self.kinds or subject in self._adopted
            if not is_known and lease.phase not in _NOT_YET and self.house.is_left(lease.by):
                self._adopted.add(subject)
                self.rounds.want(self.house.last(lease))

    def _place(self) -> None:
        given = self._given()
        for task, subject in given.items():
            if task in self.works and subject not in self.kinds:
                self._want(subject, self.works[task].request)
        waiting = [(work, work.request.kind) for work in self._waiting(given)]
        for work, chosen in placed(waiting, self._loads(), self.house.machines, self.house.ahead):
            if chosen:
                self.queues.give(chosen, work.task)
            else:
                subject = self.queues.fresh(work.task)
                self._want(subject, work.request, work.task)

    def _given(self) -> dict[Task, str]:
        """The tasks that a lease has which is not over."""
        last = self.rounds.last
        found = {**self.rounds.open, **dict.fromkeys(self.kinds)}
        live = [each for each in found if each not in last or not last[each].phase.is_over]
        return {task: subject for subject in live for task in self.queues.of(subject)}

    def _waiting(self, given: dict[Task, str]) -> Iterator[Work]:
        for work in list(self.works.values()):
            if work.task in given:
                continue
            if sum(1 for _ in self.queues.leases(work.task)) >= _MAX_LEASES:
                self._finish(work, _unlucky(work))
            else:
                yield work

    def _want(self, subject: str, request: Request, first: Task | None = None) -> None:
        """Want a lease, with its first task if it has none yet; nothing is left half done."""
        wanted = self.house.wanted(subject, request.cell, request.grid, request.kind)
        if first:
            self.queues.give(subject, first)
        self.kinds[subject] = request.kind
        self.rounds.want(wanted)

    def _loads(self) -> Iterator[Load]:
        for subject, kind in self.kinds.items():
            yield Load(subject, kind, len(self._left(subject)), takes=self._takes(subject))

    def _takes(self, subject: str) -> bool:
        lease = self.rounds.last.get(subject)
        works = lease is None or lease.phase in _WORKS or lease.phase is Phase.RUNNING
        return works and not (lease and lease.is_cancelled)

    def _left(self, subject: str) -> list[Task]:
        """The tasks of a lease that did not end, whoever asked for them."""
        ends = self.rounds.register.ends
        return [task for task in self.queues.of(subject) if task not in ends]

    def _running(self) -> Iterator[tuple[str, Work]]:
        """What is worked on now, with the nonce of its machine."""
        for subject in self.kinds:
            lease = self.rounds.last.get(subject)
            for task in self._left(subject)[:1]:
                if lease and lease.phase is Phase.RUNNING and task in self.works:
                    yield lease.nonce, self.works[task]

    def _say(self, text: str) -> None:
        """Say it once, however often it is so."""
        if text != self._said:
            self._said = text
            self.house.say(text)

    # -- the end ----------------------------------------------------------------------------------

    @property
    def rented(self) -> dict[str, Lease]:
        """The leases that this controller cares for and that may cost something."""
        last = self.rounds.last  # of a lease that another controller ended it stays as it was
        known = {each: last.get(each, lease) for each, lease in self.rounds.open.items()}
        cared = known.keys() & {*self.kinds, *self._adopted, *last}
        return {each: known[each] for each in cared if not known[each].phase.is_over}

    @property
    def num_given(self) -> int:
        """How many jobs that were asked for here have a machine, or will have one."""
        given = self._given()
        return sum(task in given for task in self.works)

    def release(self) -> dict[str, Lease]:
        """End every machine that has nothing left to do, from the next round on; those leases."""
        found = {
            subject: lease
            for subject, lease in self.rented.items()
            if lease.is_cancelled or not self._left(subject)
        }
        for subject in found:
            self.rounds.cancel(subject)
        return found

    def cancel(self) -> None:
        """End all that is rented for jobs of this controller, from the next round on."""
        self._asked.clear()
        for subject in self.kinds:
            self.rounds.cancel(subject)


def _lost(work: Work, lease: Lease) -> Outcome:
    fault = PlatformFault(
        f"the machines for {work.request.cell} came to an end before it did: {lease.end}",
        seen=f"{counted(lease.attempt, 'machine')}, {counted(lease.links, 'link')}, "
        f"{counted(lease.interruptions, 'interruption')}, {counted(lease.failures, 'failure')}",
        where=f"{lease.platform}, lease {lease.subject[:12]}",
        do="`quantgrid leases --all` shows it; the next call goes on from the newest checkpoint.",
    )
    return Outcome.failed(work.task.job, fault)


def _unlucky(work: Work) -> Outcome:
    fault = PlatformFault(
        f"{work.request.cell} was given to {_MAX_LEASES} leases, and none of them did it",
        do="`quantgrid leases --all` shows how they ended.",
    )
    return Outcome.failed(work.task.job, fault)
