"""A tenant whose controllers die anywhere, on a platform that fails in every way."""

from pathlib import Path

import pytest

from quantgrid.rental.register import Register
from rented_tenant import Hirer, Office
from rented_world import Line, MemoryStore, World

JOBS = 6


def play(seed: int, root: Path, rate: float) -> None:
    """Ask for jobs until all are done, with controllers that are killed again and again."""
    world = World(seed, rate)
    dead: set[str] = set()
    world.is_dead = dead.__contains__
    office = Office(world)
    wanted = {f"c{number}" for number in range(JOBS)}
    hirer = Hirer(world, root, machines=3)
    asked: dict[str, str] = {}
    for _ in range(600):
        for name in wanted - set(asked.values()):
            asked[hirer.ask(name)] = name
        if world.random.random() < 0.3 and hirer.line.calls_left > 1 << 50:
            hirer.line.calls_left = world.random.randrange(200)
        if not hirer.go():
            dead.add(hirer.by)
            hirer, asked = Hirer(world, root, machines=3), {}
            continue
        for job, outcome in list(hirer.outcomes.items()):
            name = asked.pop(job)
            wanted -= {name} if outcome.is_done else set()
            del hirer.outcomes[job]
            office.takes_s[job] = 0.0
        if not wanted:
            break
    assert not wanted, (seed, world.told[-5:])
    world.nemesis.rate = 0.0
    hirer.line.calls_left = 1 << 60
    for machine in world.alive:
        machine.is_stuck = machine.is_mute = False
    for _ in range(400):
        hirer.tenant.release()
        hirer.go()
        if not world.alive and not hirer.tenant.rented:
            break
    assert world.alive == [], seed
    assert all((root / f"receipts/c{number}.json").exists() for number in range(JOBS)), seed
    books = Register(MemoryStore(Line(world))).books()
    assert len(world.machines) <= len(books.promises), seed


@pytest.mark.parametrize("seed", range(12))
def test_jobs_are_all_done_when_controllers_die_anywhere(seed: int, tmp_path: Path) -> None:
    """Every job ends with its output here, no machine is left, and each had a promise first."""
    play(seed, tmp_path, rate=0.05)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_jobs_are_all_done_in_many_schedules(block: int, tmp_path: Path) -> None:
    """The same for a thousand schedules."""
    for seed in range(100 + block * 50, 150 + block * 50):
        play(seed, tmp_path / str(seed), rate=0.08)
