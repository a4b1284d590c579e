"""Coordinators follow each other: one chain, paid for, that ends when nothing comes on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quantgrid.rental.errors import Call
from quantgrid.rental.lease import End, Phase
from quantgrid.rental.packing import Kind
from quantgrid.rental.register import DONE, sign_key
from quantgrid.rental.succession import Shift, Succession
from quantgrid.rental.tasks import Task
from rented_tenant import Hirer, Office
from rented_world import Rented, World

RULE = "coordinator"
KIND = Kind("small", 0, alone=RULE)
LEAD_S = 120.0 + 600.0
"""A create and a boot, by the limits of this world."""


class Post:
    """A coordinator at work in its machine."""

    def __init__(self, world: World, machine: Rented, task: Task, root: Path) -> None:
        self.world, self.machine = world, machine
        self.hirer = Hirer(world, root)
        tenant = self.hirer.tenant
        self.succession = Succession(
            tenant,
            Shift(machine.name.nonce, task),
            lambda lease: lease.cell == RULE,
            lambda subject: tenant.house.wanted(subject, RULE, "grid", KIND),
            world.told.append,
        )
        left_s = machine.order.deadline_s - world.now_s
        self.late_s = machine.order.deadline_s - self.succession.lead_s(left_s)

    def go(self) -> None:
        """A look; it gives way when a newer one works."""
        if self.succession.go(is_late=self.world.now_s >= self.late_s):
            self.succession.leave()


class Grid:
    """A grid whose coordinator was launched from a laptop that is halted since then."""

    def __init__(self, root: Path) -> None:
        self.world, self.root = World(), root / "copy"
        self.office, self.laptop = Office(self.world), Hirer(self.world, root)
        self.job = self.laptop.ask(RULE, KIND)
        self.office.takes_s[self.job] = 1e9
        self.task = Task(self.job, 1)
        self.posts: dict[str, Post] = {}
        while Phase.RUNNING not in {e.phase for e in self.laptop.tenant.rounds.last.values()}:
            self.laptop.go()

    def pass_by(self, seconds: float, come_on: Callable[[], object] = lambda: None) -> None:
        """Let time go by for everybody but the laptop."""
        end_s = self.world.now_s + seconds
        while self.world.now_s < end_s:
            come_on()
            for machine in self.world.alive:
                if machine.beats and machine.id not in self.posts:
                    post = Post(self.world, machine, self.task, self.root)
                    self.posts[machine.id] = post
            for machine in self.world.alive:
                if machine.id in self.posts:
                    self.posts[machine.id].go()
            assert len(self.world.alive) <= 2, "more than one coordinator and its next one"
            self.world.advance(30.0)

    def ends(self) -> Iterator[None]:
        """Jobs of the grid that end, one after the other."""
        for number in range(1_000_000):
            key = sign_key("0" * 12, DONE, f"{number:064x}", "000001")
            yield self.world.keys.update({key: (b"", self.world.now_s)})

    @property
    def machines(self) -> list[Rented]:
        """Of coordinators, the oldest first."""
        return list(self.world.machines.values())


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    """A grid with its first coordinator."""
    return Grid(tmp_path)


def test_coordinators_follow_each_other_while_the_grid_comes_on(grid: Grid) -> None:
    """Each is rented before the cap of the one before it, which ends when the new one works."""
    ends = grid.ends()
    grid.pass_by(6 * 3600.0, lambda: next(ends))

    assert len(grid.machines) >= 6
    assert len(grid.world.alive) == 1
    for before, after in zip(grid.machines, grid.machines[1:], strict=False):
        assert before.ended_s is not None
        assert before.order.deadline_s - LEAD_S <= after.begin_s < before.ended_s
        assert before.ended_s < before.order.deadline_s
    grid.pass_by(1200.0, lambda: next(ends))
    books = grid.posts[grid.world.alive[0].id].hirer.tenant.rounds.register.books()
    assert len(books.open()) == 1  # that of the living one; all others are paid for


def test_the_laptop_finds_the_newest_coordinator_when_it_wakes_up(grid: Grid) -> None:
    """It follows the one that lives, rents none, and brings the end home."""
    ends = grid.ends()
    grid.pass_by(3 * 3600.0, lambda: next(ends))
    count = len(grid.machines)

    for _ in range(10):
        grid.laptop.go()
        grid.pass_by(30.0, lambda: next(ends))
    assert len(grid.machines) == count
    assert not grid.laptop.outcomes

    grid.office.takes_s.clear()
    grid.laptop.until(grid.job)
    assert grid.laptop.outcomes[grid.job].is_done


def test_no_further_coordinator_is_rented_when_nothing_comes_on(grid: Grid) -> None:
    """Three at most: the first, and two during which no job ended and no checkpoint was made."""
    grid.pass_by(8 * 3600.0)

    assert len(grid.machines) == 3
    assert grid.world.alive == []
    assert sum("no further coordinator" in each for each in grid.world.told) == 1


def test_one_coordinator_is_left_when_there_are_two(grid: Grid) -> None:
    """The older one gives way, however much time it has, and rents nothing."""
    ends = grid.ends()
    grid.pass_by(60.0, lambda: next(ends))
    first = grid.posts[grid.machines[0].id]
    first.succession.go(is_late=True)  # too early, as after a clock that jumped
    grid.pass_by(600.0, lambda: next(ends))

    assert len(grid.machines) == 2
    assert grid.world.alive == grid.machines[1:]


def test_one_coordinator_is_rented_when_the_one_before_it_was_started_again(grid: Grid) -> None:
    """What it rented is found by looking, and how far all was is noted once."""
    grid.pass_by(60.0)
    for _ in range(2):  # the first one dies between the queue and the lease
        Post(grid.world, grid.machines[0], grid.task, grid.root).succession.go(is_late=True)
    second = Post(grid.world, grid.machines[0], grid.task, grid.root)
    second.succession.go(is_late=True)
    for _ in range(3):
        second.succession.go(is_late=True)
    third = Post(grid.world, grid.machines[0], grid.task, grid.root)
    assert not third.succession.go(is_late=True)

    assert len(grid.world.alive) == 2
    assert third.hirer.tenant.queues.read() is None
    assert sum(1 for _ in third.hirer.tenant.queues.leases(grid.task)) == 4
    assert sum(key.startswith("rental/hand-overs/") for key in grid.world.keys) == 1


def test_receipts_of_corpora_reach_the_next_coordinator(grid: Grid, tmp_path: Path) -> None:
    """It waits for the earlier one, and then has what that one knew; nothing is sealed twice."""
    grid.pass_by(60.0)
    first = grid.posts[grid.machines[0].id]
    receipt = grid.root / "receipts/corpus/text/sealed.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text("sealed")
    assert not first.succession.awaits()
    while len(grid.world.alive) < 2 or not grid.world.alive[1].beats:
        first.succession.go(is_late=True)
        grid.world.advance(30.0)
    there = tmp_path / "there"
    second = Post(grid.world, grid.machines[1], grid.task, there)
    assert second.succession.awaits()
    second.succession.take_up(there)
    assert not (there / "receipts").exists()

    assert first.succession.leave_behind(grid.root)
    first.succession.leave()
    assert not second.succession.awaits()
    second.succession.take_up(there)

    assert (there / "receipts/corpus/text/sealed.json").read_text() == "sealed"


def test_an_earlier_coordinator_is_not_waited_for_when_its_machine_has_ended(
    grid: Grid, tmp_path: Path
) -> None:
    """It reached its cap before it could give way: its exit record says so, its lease does not."""
    first = grid.posts.setdefault(
        grid.machines[0].id, Post(grid.world, grid.machines[0], grid.task, grid.root)
    )
    while len(grid.world.alive) < 2 or not grid.world.alive[1].beats:
        first.succession.go(is_late=True)
        grid.world.advance(30.0)
    second = Post(grid.world, grid.machines[1], grid.task, tmp_path / "there")
    assert second.succession.awaits()

    grid.machines[0].leave(End.CAP, 75)

    assert not second.succession.awaits()


def test_the_next_coordinator_is_ended_when_the_grid_is_done_meanwhile(grid: Grid) -> None:
    """Nobody pays for a coordinator of nothing."""
    grid.pass_by(60.0)
    post = grid.posts[grid.machines[0].id]
    post.succession.go(is_late=True)
    for _ in range(3):
        post.hirer.tenant.rounds.go()
    assert len(grid.world.alive) == 2

    for _ in range(20):
        if post.succession.dismiss():
            break
        grid.world.advance(30.0)
    else:
        raise AssertionError(grid.world.alive)
    assert grid.world.alive == grid.machines[:1]


def test_a_person_is_told_when_the_next_coordinator_does_not_come(grid: Grid) -> None:
    """Its own machine goes on to its end; no other one is tried for the same money."""
    grid.pass_by(60.0)
    grid.world.fates = ["fatal"] * 9
    post = grid.posts[grid.machines[0].id]
    for _ in range(30):
        post.succession.go(is_late=True)
        grid.world.advance(30.0)

    assert sum("did not come to work" in each for each in grid.world.told) == 1
    assert grid.world.alive == grid.machines[:1]
    lease = post.hirer.tenant.rounds.open[grid.machines[0].order.command[1]]
    assert lease.phase is Phase.RUNNING
    assert grid.world.calls.count(Call.LAUNCH) <= 1 + 2
