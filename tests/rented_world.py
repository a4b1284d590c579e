"""A platform, a store and machines that exist only in memory, with a seeded nemesis in each call.

The platform keeps its own bill and shares nothing with the lease machine.  Machines follow what
docs/formats/rental.md asks of them; the nemesis lets calls fail before and after their effect,
hides fresh machines, kills machines and controllers, and freezes both.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from quantgrid.errors import PlatformFault
from quantgrid.rental import register as keys
from quantgrid.rental.errors import Call, CallFault, Trouble
from quantgrid.rental.lease import End, Exit, Lease, Terms
from quantgrid.rental.port import (
    Account,
    Candidate,
    Ended,
    Limits,
    Machine,
    MachineState,
    Name,
    Order,
    Price,
    Statement,
    VolumeFacts,
)
from quantgrid.rental.register import exit_bytes, sign_key
from quantgrid.store import Entry
from rehearsal import meters

ACCOUNT = "lab/main"
LIMITS = Limits(cap_s=86_400.0, grace_s=30.0, boot_s=600.0, create_s=120.0, visible_s=120.0)
CANDIDATES = (
    Candidate("big", 1, "", Price(3_600_000, "test", "2026-11-30")),
    Candidate("small", 1, "", Price(1_800_000, "test", "2026-11-30")),
)
TERMS = Terms(CANDIDATES, LIMITS, run_s=3000.0, stall_s=600.0, capacity_s=7200.0)
BEGIN_S = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


class Killed(BaseException):
    """What ends a controller in the middle of a call."""


class Nemesis:
    """Decides what goes wrong, from one seed; a rate of nothing lets all go well."""

    def __init__(self, random: Random, rate: float) -> None:
        self.random, self.rate = random, rate

    def strikes(self, share: float = 1.0) -> bool:
        return self.rate > 0 and self.random.random() < self.rate * share


class World:
    """Time, keys, machines, bill and records."""

    def __init__(self, seed: int = 0, rate: float = 0.0) -> None:
        self.random = Random(seed)
        self.nemesis = Nemesis(self.random, rate)
        self.now_s = BEGIN_S
        self.keys: dict[str, tuple[bytes, float]] = {}
        self.machines: dict[str, Rented] = {}
        self.late: list[tuple[float, Order]] = []
        self.created: Callable[[Rented], None] = lambda _: None
        self.work: Callable[[Rented], End | None] = lambda _: None
        self.checkpoints: dict[str, int] = {}
        self.good_records: set[str] = set()
        self.down: set[Call] = set()
        self.fates: list[str] = []
        """What becomes of the next creates: a trouble, "lost" after it was done, "slow", "die"."""
        self.boot_s = 30.0
        self.hidden_s = 0.0
        self.calls: list[Call] = []
        self.told: list[str] = []
        self.account = ACCOUNT
        self.is_dead: Callable[[str], bool] = lambda _: False
        meters.add(self, self._measured)

    def _measured(self) -> meters.Reading:
        """Its machines end with it: none is left that costs something."""
        return meters.Reading(self.now_s - BEGIN_S, self.bill() / 1e6)

    @property
    def alive(self) -> list["Rented"]:
        """Machines that cost something now."""
        return [each for each in self.machines.values() if each.ended_s is None]

    def of(self, subject: str) -> list["Rented"]:
        """All machines that ever were there for a subject."""
        return [m for m in self.machines.values() if m.name.subject == subject[:12]]

    def bill(self, now_s: float | None = None) -> int:
        """Micro-dollars: seconds times price of each machine, rounded up, by its own count."""
        now_s = self.now_s if now_s is None else now_s
        return sum(math.ceil(m.cost(now_s)) for m in self.machines.values())

    def create(self, order: Order) -> "Rented":
        machine = Rented(self, f"m{len(self.machines)}", order)
        self.machines[machine.id] = machine
        self.created(machine)
        return machine

    def newest_of(self, name: Name) -> Lease | None:
        """The newest state of the lease that a machine is of."""
        return self.newest_of_subject(name.subject)

    def newest_of_subject(self, subject: str) -> Lease | None:
        """The newest state of the lease of a subject, of which the first digits will do."""
        prefix = f"rental/leases/{subject}"
        states = [k for k in self.keys if k.startswith(prefix) and not k.endswith("over")]
        return Lease.parse(self.keys[max(states)][0], max(states)) if states else None

    def advance(self, seconds: float) -> None:
        """Let time go on, for machines and for calls that arrive late."""
        until_s = self.now_s + seconds
        for arrival_s, order in sorted(each for each in self.late if each[0] <= until_s):
            self.late.remove((arrival_s, order))
            self.now_s = arrival_s
            self.create(order)
        self.now_s = until_s
        for machine in self.alive:
            machine.live()


class Rented:
    """A machine: it boots, claims, beats, works and ends itself, as the format asks."""

    def __init__(self, world: World, id_: str, order: Order) -> None:
        self.world, self.id, self.order, self.name = world, id_, order, order.name
        self.begin_s = world.now_s
        self.ended_s: float | None = None
        self.ready_s = world.now_s + world.boot_s
        self.visible_s = world.now_s + world.hidden_s
        self.is_mute = self.is_stuck = self.is_looping = False
        self.starts, self.beats, self.started_s = 0, 0, world.now_s
        if world.nemesis.strikes():
            self.visible_s += world.random.uniform(0, LIMITS.visible_s)
        if world.nemesis.strikes(0.5):
            self.ready_s += world.random.choice([300.0, 1e9])
        self.is_mute = world.nemesis.strikes(0.1)

    def cost(self, now_s: float) -> float:
        end_s = now_s if self.ended_s is None else self.ended_s
        return (end_s - self.begin_s) * self.order.candidate.price.microusd_per_h / 3600

    def end(self) -> None:
        if self.ended_s is None:
            self.ended_s = self.world.now_s

    def put(self, kind: str, *words: str, data: bytes = b"") -> bool:
        key = sign_key(self.name.nonce, kind, *words)
        if key in self.world.keys:
            return False
        self.world.keys[key] = data, self.world.now_s
        return True

    def live(self) -> None:
        """What happened in this machine since the last time."""
        world = self.world
        if world.nemesis.strikes(0.2):  # taken away, at any time
            return self.end()
        if world.now_s < self.ready_s:
            return None
        if self.is_looping or world.nemesis.strikes(0.04):  # the container starts again and again
            self.is_looping, self.started_s = True, world.now_s
            self.put(keys.START, f"{self.starts:06d}")
            self.starts += 1
            return self.end() if world.now_s > self.order.deadline_s else None
        if not self.starts:
            self.put(keys.START, "000000")
            self.starts = 1
            if not self.is_the_one():
                return self.end()
        if world.now_s > self.order.deadline_s:
            return self.leave(End.CAP, 75)
        if self.is_mute or world.nemesis.strikes(0.08):
            self.is_mute = True  # it hangs; its first process still knows the deadline
            return None
        return self.compute()

    def is_the_one(self) -> bool:
        """Whether it has the claim, and the newest state of its lease names its nonce."""
        claim = sign_key(self.name.nonce, keys.CLAIM)
        self.world.keys.setdefault(claim, (self.id.encode(), self.world.now_s))
        newest = self.world.newest_of(self.name)
        is_newest = newest is not None and newest.nonce == self.name.nonce
        return is_newest and self.world.keys[claim][0] == self.id.encode()

    def compute(self) -> None:
        subject, world = self.name.subject, self.world
        checkpoint = world.checkpoints.get(subject, 0)
        self.beats += 1
        self.put(keys.BEAT, f"{self.beats:08d}", str(checkpoint))
        if end := world.work(self):
            self.leave(end, {End.DONE: 0, End.CAP: 75, End.REFUSED: 78}.get(end, 70))

    def leave(self, end: End, code: int) -> None:
        """The exit record, then the end by its own call, which may fail for long."""
        checkpoint = self.world.checkpoints.get(self.name.subject, 0)
        records = (self.name.subject,) if end is End.DONE else ()
        record = Exit(self.name.nonce, self.id, end, code, checkpoint, records)
        self.put(keys.EXIT, data=exit_bytes(record))
        self.is_mute = True
        if not self.world.nemesis.strikes(2.0):
            self.end()


class Line:
    """A way from one controller to the world; cutting it kills the controller."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls_left = 1 << 60

    def call(self) -> None:
        """One more call begins; a controller may die in it."""
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed


class MemoryStore:
    """A store behind a line: calls fail before and after their effect."""

    address, is_remote = "memory", False

    def __init__(self, line: Line) -> None:
        self.line, self.world = line, line.world

    def _fails(self) -> None:
        if self.world.nemesis.strikes(0.05):
            raise PlatformFault("the store does not answer")

    def find(self, key: str) -> bytes | None:
        self.line.call()
        self._fails()
        found = self.world.keys.get(key)
        return found[0] if found else None

    def put_once(self, key: str, data: bytes) -> bool:
        self.line.call()
        self._fails()
        is_new = key not in self.world.keys
        self.world.keys.setdefault(key, (data, self.world.now_s))
        self._fails()  # the reply was lost
        return is_new

    def list(self, prefix: str) -> Iterator[str]:
        self.line.call()
        self._fails()
        return iter([key for key in self.world.keys if key.startswith(f"{prefix}/")])

    def entries(self, prefix: str) -> Iterator[Entry]:
        for key in self.list(prefix):
            data, put_s = self.world.keys[key]
            yield Entry(key, len(data), datetime.fromtimestamp(put_s, UTC))

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.world.now_s, UTC)

    def delete(self, key: str) -> None:
        self.world.keys.pop(key, None)

    def get(self, key: str) -> bytes:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def size(self, key: str) -> int | None:
        raise NotImplementedError(key)

    def fetch(self, key: str, cache: Path) -> Path:
        raise NotImplementedError(key, cache)

    def put_file_once(self, key: str, source: Path) -> bool:
        raise NotImplementedError(key, source)

    def clear_dead(self) -> int:
        return 0


class MemoryPlatform:
    """The port of the platform, behind a line."""

    name, limits = "memory", LIMITS

    def __init__(self, line: Line) -> None:
        self.line, self.world = line, line.world

    def _begin(self, call: Call) -> None:
        self.line.call()
        self.world.calls.append(call)
        if call in self.world.down or self.world.nemesis.strikes(0.5):
            raise CallFault(Trouble.RETRY, call, seen="no reply")

    def whoami(self) -> Account:
        self._begin(Call.WHOAMI)
        return Account(self.world.account)

    def volume(self, volume: str) -> VolumeFacts | None:
        self._begin(Call.VOLUME)
        return VolumeFacts(volume, "corpus", "", 1) if volume == "vol" else None

    def candidates(self, _device: str, _num_devices: int) -> tuple[Candidate, ...]:
        return CANDIDATES

    def launch(self, order: Order) -> Machine:
        self.world.calls.append(Call.LAUNCH)
        self.line.call()
        nemesis, random = self.world.nemesis, self.world.random
        fate = self.world.fates.pop(0) if self.world.fates else ""
        if fate == "slow":  # given up, and done all the same at the last moment
            self.world.late.append((self.world.now_s + LIMITS.create_s - 1, order))
            raise CallFault(Trouble.AMBIGUOUS, Call.LAUNCH, seen="no reply")
        if fate and fate not in {"lost", "die"}:
            raise CallFault(Trouble(fate), Call.LAUNCH)
        if nemesis.strikes():
            troubles = [Trouble.RETRY, Trouble.CAPACITY, Trouble.CAPACITY, Trouble.FATAL]
            raise CallFault(random.choice(troubles), Call.LAUNCH)
        if nemesis.strikes():
            if random.random() < 0.3:  # on its way for long
                arrival_s = self.world.now_s + random.uniform(0, LIMITS.create_s)
                self.world.late.append((arrival_s, order))
            raise CallFault(Trouble.AMBIGUOUS, Call.LAUNCH, seen="no reply")
        machine = self.world.create(order)
        if fate == "die":
            raise Killed
        if fate == "lost" or nemesis.strikes():
            raise CallFault(Trouble.AMBIGUOUS, Call.LAUNCH, seen="HTTP 502")
        self.line.call()  # killed before the reply
        return self._shown(machine)

    def _shown(self, rented: Rented) -> Machine:
        is_up = self.world.now_s >= rented.ready_s
        state = MachineState.RUNNING if is_up else MachineState.BOOTING
        return Machine(
            rented.id, str(rented.name), state, True, self.world.now_s - rented.started_s
        )

    def _visible(self) -> list[Machine]:
        return [self._shown(m) for m in self.world.alive if m.visible_s <= self.world.now_s]

    def find(self, name: str) -> Machine | None:
        self._begin(Call.FIND)
        return next((each for each in self._visible() if each.name == name), None)

    def machines(self, _owner: str) -> tuple[Machine, ...]:
        self._begin(Call.MACHINES)
        return tuple(self._visible())  # a platform may show more than was asked for

    def observe(self, machine: str) -> Machine | None:
        self._begin(Call.OBSERVE)
        return next((each for each in self._visible() if each.id == machine), None)

    def stop(self, machine_: str) -> None:
        self._begin(Call.STOP)
        machine = self.world.machines[machine_]
        if machine.visible_s > self.world.now_s or self.world.nemesis.strikes():
            return  # answered "not there", or accepted and not done
        machine.end()
        if self.world.nemesis.strikes():
            raise CallFault(Trouble.RETRY, Call.STOP, seen="the reply was lost")

    def statements(self, ended: Sequence[Ended]) -> Mapping[str, Statement]:
        self._begin(Call.STATEMENTS)
        if self.world.nemesis.strikes():
            return {}  # later
        return dict(self._statements(ended))

    def _statements(self, ended: Sequence[Ended]) -> Iterator[tuple[str, Statement]]:
        for name in (each.name for each in ended):
            named = [m for m in self.world.machines.values() if m.name == name]
            ends_s = [m.ended_s for m in named if m.ended_s is not None]
            if len(ends_s) == len(named):
                begin_s, end_s = min((m.begin_s for m in named), default=0.0), max([0.0, *ends_s])
                amount = sum(math.ceil(m.cost(end_s)) for m in named)
                yield str(name), Statement(amount, math.floor(begin_s), math.ceil(end_s))

    def logs(self, machine: str, tail: int) -> str:
        self._begin(Call.LOGS)
        return f"{tail} lines of {machine}"
