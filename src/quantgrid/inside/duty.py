"""The queue of a lease, worked off by the machine that has it: one task after the other."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from quantgrid import layout
from quantgrid.errors import Checkpointed, DataFault, PlatformFault, Refusal
from quantgrid.inside.copies import Copies
from quantgrid.inside.heart import Heart
from quantgrid.inside.patience import tell
from quantgrid.inside.saying import Saying
from quantgrid.inside.signs import Left
from quantgrid.inside.times import Times
from quantgrid.inside.working import Bounds, Patterns, Working, run
from quantgrid.inside.yields import Yield
from quantgrid.masking import masked
from quantgrid.rental import tasks
from quantgrid.rental.lease import End
from quantgrid.rental.tasks import Task, TaskEnd, TaskOrder

if TYPE_CHECKING:
    from quantgrid.inside.life import Life

T = TypeVar("T")
TASK_STEP = 10**12
"""A task that ended counts more than all tokens of one that runs."""
_AGAIN = Checkpointed.exit_code
_LOOK_S = 2.0
_LEAST_LOOK_S = 0.1


class Duty:
    """What one machine does of a queue.

    Args:
        life: The machine.
        times: Its moments.
    """

    def __init__(self, life: "Life", times: Times) -> None:
        self.records: list[str] = []
        self.code: Path | None = None
        """The sources of the newest task."""
        self._life, self._times, self._told = life, times, life.told
        self._mount = Path(self._told.mount).absolute() if self._told.mount else None
        machine = f"{self._told.platform} {self._told.subject} {self._told.nonce}"
        self._copies = Copies(life.store, life.work, self._mount, machine)
        self._done: set[Task] = set()
        self._links: tuple[Path, ...] = ()
        self._most = 0

    @property
    def ends_s(self) -> float:
        """Moment of the monotonic clock when no task may run any more."""
        return self._times.ends_s

    @property
    def progress(self) -> int:
        """What a beat tells: grows with every checkpoint and with every task that ended."""
        now = len(self._done) * TASK_STEP + sum(map(_tokens, self._links))
        self._most = max(self._most, now)
        return self._most

    def work(self, heart: Heart) -> Left:
        """Work off the queue until there is a reason to leave."""
        life, idle_s = self._life, self._told.real(self._told.idle_s)
        self._insist(self._learn)
        free_s = life.clock.monotonic_s()
        while True:
            if why := self._why(heart):
                return Left(why, _AGAIN)
            task = self._insist(self._next)
            if task:
                if left := self._task(task, heart):
                    return left
                free_s = life.clock.monotonic_s()
            elif life.clock.monotonic_s() - free_s >= idle_s:
                return Left(End.DONE, 0)
            else:
                life.asked.wait(max(min(life.told.real(_LOOK_S), idle_s / 4), _LEAST_LOOK_S))

    def _why(self, heart: Heart) -> End | None:
        """Why the machine has to leave, whatever it does."""
        if self._life.asked.is_set():
            return End.INTERRUPTED
        if heart.is_lost:
            return End.LEASE_LOST
        return End.CAP if self._life.clock.monotonic_s() >= self._times.ends_s else None

    # -- the queue --------------------------------------------------------------------------------

    def _learn(self) -> None:
        """What earlier machines have done, by one listing; of this lease also which records."""
        ours = {task for _, task in self._queue()}
        for key in self._life.store.list(tasks.signs_prefix()):
            found = tasks.done_words(key)
            if found and found[1] in ours:
                data = self._life.store.get(key)
                self._close(found[1], TaskEnd.parse(data, key).records)

    def _next(self) -> Task | None:
        return next((task for _, task in self._queue() if task not in self._done), None)

    def _queue(self) -> list[tuple[int, Task]]:
        keys = self._life.store.list(tasks.queue_prefix(self._told.subject))
        return sorted(tasks.queue_words(key)[1:] for key in keys)

    def _close(self, task: Task, records: tuple[str, ...]) -> None:
        self._links = ()
        self._done.add(task)
        self.records.extend(records)

    # -- one task ---------------------------------------------------------------------------------

    def _task(self, task: Task, heart: Heart) -> Left | None:
        """Do a task; why the machine has to leave, None when it may go on."""
        key = tasks.task_key(task)
        begin_s = self._insist(self._life.store.now).timestamp()
        try:
            order = TaskOrder.parse(self._insist(lambda: self._life.store.get(key)), key)
            root = self.code = self._insist(lambda: self._copies.ready(order))
        except (DataFault, Refusal, KeyError, OSError) as error:
            self._end(task, self._refused(task, error), begin_s)
            return None
        self._links = tuple(self._mount / each for each in order.links) if self._mount else ()
        saying = self._saying(task, order, root)
        ended = self._run(task, order, root, heart, saying)
        self._copies.sync()
        log = self._insist(saying.finish)
        if ended.asked and ended.code != 0:
            return Left(ended.asked, ended.code)
        result = Yield(order, root, ended.code)
        try:
            end = self._made(task, result, log)
        except Refusal as refusal:
            end = self._refused(task, refusal)
        self._end(task, end, begin_s)
        return None

    def _made(self, task: Task, made: Yield, log: bytes) -> TaskEnd:
        files = self._insist(lambda: made.files(self._life.store, log))
        who, sentence = self._who, masked(made.sentence(), os.environ)
        return TaskEnd(*task, *who, made.code, sentence, files, made.records(), 0, 0)

    @property
    def _who(self) -> tuple[str, str]:
        return self._told.nonce, self._life.machine

    def _saying(self, task: Task, order: TaskOrder, root: Path) -> Saying:
        path = layout.said_file(root, order.log)
        return Saying(self._life.store, self._told.nonce, task, path, os.environ)

    def _run(
        self, task: Task, order: TaskOrder, root: Path, heart: Heart, saying: Saying
    ) -> Working:
        """Run a task, and once more whenever it saved and left early."""
        clock, told = self._life.clock, self._told
        mark = f"{told.nonce}.{task.job}.{task.number}"
        bounds = Bounds(
            self._times.grace_s,
            told.real(told.stall_s),
            lambda: self._why(heart),
        )
        progress = tuple(root / layout.progress_file(each) for each in order.outputs)
        patterns = Patterns(layout.said_file(root, order.log), progress, self._links)
        heart.also = saying.send
        try:
            while True:
                ends_at_s = self._times.wall_s(clock)
                environment = self._copies.environment(order, root, mark, ends_at_s)
                ended = run(order.command, root, environment, bounds, patterns, clock)
                if ended.code != _AGAIN or ended.asked:
                    return ended
                if not self._times.has_half(clock.monotonic_s()):
                    return ended._replace(asked=End.CAP)
        finally:
            heart.also = _nothing

    def _refused(self, task: Task, error: Exception) -> TaskEnd:
        """The end of a task that could not begin, or whose files cannot travel."""
        code = getattr(error, "exit_code", PlatformFault.exit_code)
        sentence = masked(str(error), os.environ)
        return TaskEnd(*task, *self._who, code, sentence, (), (), 0, 0)

    def _end(self, task: Task, end: TaskEnd, begin_s: float) -> None:
        """Say that a task ended for good."""
        now_s = self._insist(self._life.store.now).timestamp()
        end = end._replace(started_s=begin_s, ended_s=now_s)
        key = tasks.done_key(self._told.nonce, task)
        self._insist(lambda: self._life.store.put_once(key, end.to_bytes()))
        self._close(task, end.records)
        if end.code:
            tell(f"task {task.job[:12]} ended with {end.code}: {end.sentence}")

    def _insist(self, call: Callable[[], T]) -> T:
        """The answer of the store, for as long as silence is borne and there is time."""
        until_s = self._life.clock.monotonic_s() + self._told.real(self._told.stall_s)
        return self._life.patience.insist(call, min(until_s, self._times.deadline_s))


def _nothing() -> None:
    """Between two tasks nothing is said."""


def _tokens(link: Path) -> int:
    """Tokens of the newest checkpoint that a script told of."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(link.read_bytes())["tokens"])
    return 0
