"""Rented machines under a nemesis: whatever fails, no machine is lost and no money is overspent.

A schedule is one seed: controllers that are killed in the middle of calls, frozen and started
again, two of them at times; calls that fail before and after their effect; machines that come late,
hide, hang, loop and are taken away.  At the end all goes well again, and everything must end.
"""

from random import Random

import pytest

from quantgrid.rental.lease import End, Phase
from quantgrid.rental.spend import Caps
from rented_controller import Controller
from rented_world import LIMITS, TERMS, Rented, World

HEALED_ROUNDS = 900
CAP = 15_000_000


class Schedule:
    """One world with a few subjects, and what must hold in it at every moment."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, rate=Random(seed).choice([0.0, 0.1, 0.3]))
        self.random = Random(seed + 1)
        self.subjects = [f"{self.random.randrange(1 << 256):064x}" for _ in range(3)]
        self.caps = Caps(grid=CAP, subject=8_000_000, per_hour=7_000_000)
        self.world.work, self.world.created = self.work, self.watch
        self.world.is_dead = lambda by: by not in {each.by for each in self.controllers}
        self.controllers: list[Controller] = []

    def work(self, machine: Rented) -> End | None:
        """A step of a job: it gets on, fails, or is done after some."""
        subject, luck = machine.name.subject, self.random.random()
        if luck < 0.03:
            return End.FAILED
        if luck < 0.06:
            return self.random.choice([End.CAP, End.REFUSED, End.CAP])
        if luck < 0.8:
            self.world.checkpoints[subject] = self.world.checkpoints.get(subject, 0) + 1
        if self.world.checkpoints.get(subject, 0) < 12:
            return None
        if self.world.nemesis.rate and self.random.random() < 0.15:
            return End.DONE  # it lies: no record is there
        self.world.good_records.add(subject)
        return End.DONE

    def watch(self, machine: Rented) -> None:
        """What must hold at the moment of every create."""
        world = self.world
        twins = [m for m in world.alive if m.name.subject == machine.name.subject]
        assert twins == [machine], "a second machine for a live lease"
        worst = sum(
            m.cost(max(m.order.deadline_s, world.now_s)) if m.ended_s is None else m.cost(0)
            for m in world.machines.values()
        )
        assert worst <= CAP, "the machines may cost more than the cap"
        lease = world.newest_of(machine.name)
        assert lease is not None, "a machine without a lease"

    def start(self) -> Controller:
        controller = Controller(self.world, self.caps)
        for subject in self.subjects:
            controller.want(subject)
        self.controllers.append(controller)
        return controller

    def play(self) -> None:
        """Sixty moments with a nemesis, then as many as it takes without."""
        for _ in range(self.random.choice([20, 60])):
            self.moment()
        self.heal()

    def moment(self) -> None:
        random = self.random
        if not self.controllers or (len(self.controllers) < 2 and random.random() < 0.05):
            self.start()
        for controller in list(self.controllers):
            fate = random.random()
            if fate < 0.06:
                controller.line.calls_left = random.randrange(40)
            controller.is_slow = fate > 0.8
            if random.random() < 0.85 and not (controller.go() and self.calls_of(controller)):
                self.controllers.remove(controller)
        self.world.advance(random.choice([5.0, 20.0, 60.0, 60.0, 400.0]))
        self.check()

    def calls_of(self, controller: Controller) -> bool:
        """Let calls be made that were put off; whether the controller lives."""
        if self.random.random() < 0.7:
            return controller.make_calls()
        return True

    def check(self) -> None:
        """What must hold at every moment."""
        books = Controller(self.world).books()
        promised = {each.nonce for each in books.open()}
        for machine in self.world.alive:
            assert machine.name.nonce in promised, "a machine whose money nobody counts"
        for subject in self.subjects:
            lease = self.world.newest_of_subject(subject)
            if lease and lease.phase is Phase.SUCCESS:
                assert subject[:12] in self.world.good_records, "a success without records"

    def heal(self) -> None:
        """All goes well from now on: every lease ends, and every machine before it."""
        self.world.nemesis.rate = 0.0
        self.controllers.clear()
        controller = self.start()
        for _ in range(HEALED_ROUNDS):
            controller.go()
            self.world.advance(60.0)
            self.check()
            leases = [self.world.newest_of_subject(each) for each in self.subjects]
            if all(lease and lease.phase.is_over for lease in leases) and not self.world.alive:
                break
        assert not self.world.alive, "something is billing at the end"
        assert all(lease and lease.phase.is_over for lease in leases), "a lease never ended"
        self.settle(controller)

    def settle(self, controller: Controller) -> None:
        """Every bill is asked for, and the ledger then is the bill of the platform."""
        for _ in range(HEALED_ROUNDS):
            if not (controller.books().open() or controller.books().unbilled()):
                break
            controller.go()
            self.world.advance(60.0)
        spent = sum(span.cost for span in controller.books().spent())
        assert not list(controller.books().open())
        assert spent == self.world.bill(), "the ledger is not the bill"


@pytest.mark.parametrize("block", range(5))
def test_schedules_lose_nothing_when_everything_fails(block: int) -> None:
    """Twenty schedules a block hold every invariant."""
    for seed in range(block * 20, (block + 1) * 20):
        _play(seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(20))
def test_schedules_lose_nothing_when_many_are_played(block: int) -> None:
    """Ten thousand schedules hold every invariant."""
    for seed in range(100_000 + block * 500, 100_000 + (block + 1) * 500):
        _play(seed)


def _play(seed: int) -> None:
    try:
        Schedule(seed).play()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def test_terms_of_the_schedules_are_those_of_the_format() -> None:
    """A create that may have been done is looked for at least as long as machines may hide."""
    assert TERMS.looks == 3
    assert TERMS.look_s <= LIMITS.visible_s
