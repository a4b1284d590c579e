"""A tenant in the world of a test: jobs that machines work off from their queues, all in memory."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from quantgrid.rental import bundle
from quantgrid.rental.collecting import Collector, Outcome
from quantgrid.rental.lease import End, Lease
from quantgrid.rental.packing import Kind
from quantgrid.rental.port import Name, Order
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Caps
from quantgrid.rental.tasks import (
    Task,
    TaskEnd,
    TaskOrder,
    done_key,
    done_words,
    job_id,
    queue_prefix,
    queue_words,
    task_key,
)
from quantgrid.rental.tenant import House, Request, Tenant
from rented_world import ACCOUNT, TERMS, Killed, Line, MemoryPlatform, MemoryStore, Rented, World

KIND = Kind("big", 1)
IDLE_S = 120.0


class Office:
    """Works off queues in all machines of a world, and remembers where each task was done.

    Args:
        world: The world; its machines do what this says from now on.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.codes: dict[str, list[int]] = {}
        """By job: codes of its tasks, one a try; 0 when the list is empty."""
        self.takes_s: dict[str, float] = {}
        self.done: list[tuple[Task, str]] = []
        self._begun: dict[tuple[str, Task], float] = {}
        self._idle: dict[str, float] = {}
        world.work = self.work

    def work(self, machine: Rented) -> End | None:
        """What a machine does between two looks: it ends its task, or it was idle for too long."""
        now_s, task = self.world.now_s, self._next(machine)
        if task is None:
            idle_s = now_s - self._idle.setdefault(machine.id, now_s)
            return End.DONE if idle_s >= IDLE_S else None
        self._idle.pop(machine.id, None)
        begun_s = self._begun.setdefault((machine.id, task), now_s)
        if now_s - begun_s >= self.takes_s.get(task.job, 0.0):
            self._finish(machine, task)
        return None

    def _next(self, machine: Rented) -> Task | None:
        subject = machine.order.command[1]
        words = map(queue_words, self._keys(queue_prefix(subject)))
        ended = {found[1] for key in self._keys("rental/signs") if (found := done_words(key))}
        left = sorted((place, task) for _, place, task in words if task not in ended)
        return left[0][1] if left else None

    def _keys(self, prefix: str) -> list[str]:
        return [key for key in self.world.keys if key.startswith(f"{prefix}/")]

    def _finish(self, machine: Rented, task: Task) -> None:
        world, codes = self.world, self.codes.get(task.job, [])
        code = codes.pop(0) if codes else 0
        order = TaskOrder.parse(world.keys[task_key(task)][0], "")
        data = f"{task.job} {task.number}".encode()
        digest = bundle.put(MemoryStore(Line(World())), data)
        world.keys.setdefault(f"rental/blobs/{digest}", (data, world.now_s))
        item = bundle.Item("", digest, len(data))
        files = [item._replace(path=each) for each in order.outputs if code == 0]
        made = (f"record-{task.job}",) if code == 0 else ()
        world.good_records.update(made)
        end = TaskEnd(
            *task,
            machine.name.nonce,
            machine.id,
            code,
            "" if code == 0 else "failed: it broke.",
            (*files, item._replace(path=order.log)),
            made,
            world.now_s,
            world.now_s,
        )
        world.keys[done_key(machine.name.nonce, task)] = end.to_bytes(), world.now_s
        self.done.append((task, machine.id))


class Hirer:
    """A controller with a tenant, which may be killed in any call."""

    def __init__(
        self,
        world: World,
        root: Path,
        *,
        machines: int = 3,
        ahead: int = 2,
        caps: Caps | None = None,
    ) -> None:
        self.world, self.root, self.line = world, root, Line(world)
        self.by = f"c{world.random.randrange(1 << 40)}"
        self.is_alive = True
        self.outcomes: dict[str, Outcome] = {}
        self.orders = 0
        store = MemoryStore(self.line)
        register = Register(store)
        ways = Ways(
            now=lambda: datetime.fromtimestamp(world.now_s, UTC),
            start=self._call,
            fresh=lambda: f"{world.random.randrange(1 << 48):012x}",
            verify=self._verify,
            tell=world.told.append,
            is_dead=world.is_dead,
        )
        rounds = Rounds(MemoryPlatform(self.line), register, caps or Caps(), self.by, ways)
        house = House(
            machines, ahead, self._wanted, self._last, world.is_dead, self._call, world.told.append
        )
        self.tenant = Tenant(rounds, Collector(register, root, self._verify), root, house)

    @staticmethod
    def _call(call: Callable[[], None]) -> None:
        call()

    def _verify(self, records: tuple[str, ...]) -> bool | None:
        if self.world.nemesis.strikes(0.2):
            return None
        asked = {each for each in records if each.startswith("record-")}
        return asked <= self.world.good_records

    def _wanted(self, subject: str, cell: str, grid: str, kind: Kind) -> Wanted:
        def order(lease: Lease, name: Name) -> Order:
            command = ("supervise", lease.subject)
            end_s = lease.deadline_s
            return Order(name, lease.candidate, "image", command, (), (), "vol", "/volume", end_s)

        return Wanted(subject, cell, grid, ACCOUNT, "vol", TERMS, order, kind.max_microusd)

    def _last(self, lease: Lease) -> Wanted:
        kind = Kind(lease.candidate.device, lease.candidate.num_devices)
        terms = TERMS._replace(max_links=0, max_interruptions=0, max_failures=0)
        wanted = self._wanted(lease.subject, lease.cell, lease.grid, kind)
        return wanted._replace(terms=terms)

    def ask(self, name: str, kind: Kind = KIND) -> str:
        """Ask for a job; its id."""
        job = job_id((), "rule", [f"receipts/{name}.json"])

        def order() -> TaskOrder:
            self.orders += 1
            outputs, log = (f"receipts/{name}.json",), f"logs/{name}.log"
            return TaskOrder(name, f"make {name}", "", (), outputs, log)

        self.tenant.ask(Request(job, name, "grid", kind, order))
        return job

    def go(self, rounds: int = 1, step_s: float = 30.0) -> bool:
        """Some rounds with time between them; False when it was killed in one."""
        for _ in range(rounds):
            try:
                self.outcomes |= {each.job: each for each in self.tenant.go()}
            except Killed:
                self.is_alive = False
                return False
            self.world.advance(step_s)
        return True

    def until(self, *jobs: str, rounds: int = 300) -> None:
        """Rounds until all jobs ended."""
        for _ in range(rounds):
            if set(jobs) <= self.outcomes.keys():
                return
            self.go()
        raise AssertionError([self.tenant.rounds.last, self.world.told[-5:]])

    def settle(self, rounds: int = 100) -> None:
        """Release what is idle, and rounds until nothing is rented."""
        self.go()
        for _ in range(rounds):
            if not self.tenant.release():
                return
            self.go()
        raise AssertionError(self.tenant.rented)
