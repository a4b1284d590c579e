"""A controller of rented machines in the world of a test, which may be killed in any call."""

from collections.abc import Callable
from datetime import UTC, datetime

from quantgrid.rental.lease import Lease, Phase, Terms
from quantgrid.rental.port import Name, Order
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Books, Caps
from rented_world import ACCOUNT, TERMS, Killed, Line, MemoryPlatform, MemoryStore, World


class Controller:
    """A controller with everything it needs; `go` says whether it still lives."""

    def __init__(self, world: World, caps: Caps | None = None, by: str = "") -> None:
        self.world, self.line = world, Line(world)
        self.by = by or f"c{world.random.randrange(1 << 40)}"
        self.waiting: list[Callable[[], None]] = []
        self.is_slow = False
        ways = Ways(
            now=lambda: datetime.fromtimestamp(world.now_s, UTC),
            start=self._start,
            fresh=lambda: f"{world.random.randrange(1 << 48):012x}",
            verify=self._verify,
            tell=world.told.append,
            is_dead=world.is_dead,
        )
        platform, register = MemoryPlatform(self.line), Register(MemoryStore(self.line))
        self.register = register
        self.rounds = Rounds(platform, register, caps or Caps(), self.by, ways)

    def _start(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)
        if not self.is_slow:
            while self.waiting:
                self.waiting.pop(0)()

    def make_calls(self) -> bool:
        """Let the calls that were put off be made; False when it was killed in one."""
        try:
            while self.waiting:
                self.waiting.pop(0)()
        except Killed:
            return False
        return True

    def books(self) -> Books:
        """All promises and costs, without any trouble on the way."""
        rate, self.world.nemesis.rate = self.world.nemesis.rate, 0.0
        found = Register(MemoryStore(Line(self.world))).books()
        self.world.nemesis.rate = rate
        return found

    def _verify(self, records: tuple[str, ...]) -> bool | None:
        if self.world.nemesis.strikes(0.2):
            return None
        return bool(records) and set(records) <= self.world.good_records

    def want(self, subject: str, terms: Terms = TERMS, volume: str = "vol") -> None:
        """Want a machine for a subject."""
        self.rounds.want(
            Wanted(subject, f"cell-{subject[:4]}", "grid", ACCOUNT, volume, terms, self._order)
        )

    @staticmethod
    def _order(lease: Lease, name: Name) -> Order:
        command = ("supervise", lease.subject)
        end_s = lease.deadline_s
        return Order(name, lease.candidate, "image", command, (), (), "vol", "/volume", end_s)

    def go(self) -> bool:
        """One round; False when it was killed in it."""
        try:
            self.rounds.go()
        except Killed:
            return False
        return True

    def lease(self, subject: str) -> Lease:
        """The newest state of a lease in the register."""
        newest = Register(MemoryStore(Line(self.world))).newest(subject)
        return newest.lease if newest else Lease(subject, "", "", "", "")

    def phase(self, subject: str) -> Phase:
        """How far a lease is."""
        return self.lease(subject).phase

    def spend(self, rounds: int, step_s: float = 30.0) -> None:
        """Some rounds with time between them."""
        for _ in range(rounds):
            self.go()
            self.world.advance(step_s)

    def until(self, subject: str, *phases: Phase, rounds: int = 400) -> Lease:
        """Rounds until a lease is in one of some phases."""
        for _ in range(rounds):
            if self.lease(subject).phase in phases:
                break
            self.spend(1)
        lease = self.lease(subject)
        assert lease.phase in phases, lease
        return lease
