"""Jobs on rented machines: packed, adopted, told once, and nothing is left over."""

from pathlib import Path

import pytest

from quantgrid.rental.lease import End
from quantgrid.rental.packing import Kind
from quantgrid.rental.tasks import Task
from rented_tenant import KIND, Hirer, Office
from rented_world import World


@pytest.fixture
def world() -> World:
    """A world where all goes well."""
    return World()


def test_one_machine_serves_the_jobs_of_its_kind_when_it_is_warm(
    world: World, tmp_path: Path
) -> None:
    """Ten jobs on one allowed machine are one machine, and all outputs are here."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=1)
    jobs = [hirer.ask(f"c{number}") for number in range(10)]

    hirer.until(*jobs)
    hirer.settle()

    assert all(outcome.is_done for outcome in hirer.outcomes.values())
    assert all((tmp_path / f"receipts/c{number}.json").exists() for number in range(10))
    assert len(world.machines) == 1
    assert len(office.done) == 10
    assert world.alive == []


def test_as_many_machines_as_allowed_when_jobs_are_ready(world: World, tmp_path: Path) -> None:
    """Ten jobs of an hour rent three machines, and never a fourth one at a time."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=3)
    jobs = [hirer.ask(f"c{number}") for number in range(10)]
    office.takes_s = dict.fromkeys(jobs, 600.0)
    most = 0
    for _ in range(200):
        hirer.go()
        most = max(most, len(world.alive))

    assert len(hirer.outcomes) == 10
    assert most == 3


def test_jobs_of_other_kinds_get_machines_of_their_own(world: World, tmp_path: Path) -> None:
    """Another device, other money or a machine of its own is another lease."""
    Office(world)
    hirer = Hirer(world, tmp_path, machines=1)
    kinds = [KIND, Kind("small", 1), KIND._replace(max_microusd=9_000_000), *_alone(2)]
    jobs = [hirer.ask(f"c{number}", kind) for number, kind in enumerate(kinds)]

    hirer.until(*jobs)

    assert len(world.machines) == len(kinds)


def _alone(count: int) -> list[Kind]:
    return [KIND._replace(alone=f"job{number}") for number in range(count)]


def test_a_failed_job_is_told_once_and_its_machine_goes_on(world: World, tmp_path: Path) -> None:
    """The others of the machine are done; asked again, the job is a new task and succeeds."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=1)
    bad, good = hirer.ask("bad"), hirer.ask("good")
    office.codes[bad] = [70]
    hirer.until(bad, good)

    assert hirer.outcomes[bad].sentence == "failed: it broke."
    assert not (tmp_path / "receipts/bad.json").exists()
    assert (tmp_path / "logs/bad.log").exists()
    assert hirer.outcomes[good].is_done
    assert len(world.machines) == 1

    del hirer.outcomes[bad]
    hirer.ask("bad")
    hirer.until(bad)
    assert hirer.outcomes[bad].is_done
    assert [task.number for task, _ in office.done if task.job == bad] == [1, 2]


def test_a_later_controller_finds_the_machine_of_a_job_that_runs(
    world: World, tmp_path: Path
) -> None:
    """Killed while the job runs, the next controller rents nothing and gets the result."""
    office, first = Office(world), Hirer(world, tmp_path)
    job = first.ask("cell")
    office.takes_s[job] = 900.0
    first.go(8)
    world.is_dead = lambda by: by == first.by
    second = Hirer(world, tmp_path)
    second.ask("cell")
    second.until(job)
    second.settle()

    assert second.outcomes[job].is_done
    assert second.orders == 0
    assert len(world.machines) == 1
    assert world.alive == []


def test_a_later_controller_gets_what_ended_while_nobody_looked(
    world: World, tmp_path: Path
) -> None:
    """The job ended and its machine is gone: the result is fetched, and nothing is rented."""
    office, first = Office(world), Hirer(world, tmp_path)
    job = first.ask("cell")
    office.takes_s[job] = 300.0
    first.go(4)
    for _ in range(40):
        world.advance(30.0)
    assert office.done
    assert world.alive == []
    world.is_dead = lambda by: by == first.by
    second = Hirer(world, tmp_path)
    second.ask("cell")
    second.go(3)

    assert second.outcomes[job].is_done
    assert len(world.machines) == 1
    second.until(job)
    second.settle()
    books = second.tenant.rounds.register.books()
    assert {promise.nonce for promise in books.promises} == {cost.nonce for cost in books.costs}


def test_a_job_that_comes_as_its_machine_ends_idle_gets_another_one(
    world: World, tmp_path: Path
) -> None:
    """A place in the queue of a machine that is about to end is no loss."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=1)
    first = hirer.ask("first")
    hirer.until(first)
    machine = world.alive[0]
    machine.leave(End.DONE, 0)  # idle for long, while nobody looked
    late = hirer.ask("late")
    hirer.until(late)

    assert hirer.outcomes[late].is_done
    assert {where for task, where in office.done if task == Task(late, 1)} != {machine.id}
    assert len(world.machines) == 2


def test_a_lease_that_ends_for_good_fails_one_job_and_frees_the_others(
    world: World, tmp_path: Path
) -> None:
    """Machines that stall under one job end that job; what waited behind it is done elsewhere."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=1)
    poison, fine = hirer.ask("poison"), hirer.ask("fine")
    work = office.work
    world.work = lambda machine: End.FAILED if _has(machine, poison) else work(machine)

    def _has(machine: object, job: str) -> bool:
        task = office._next(machine)  # type: ignore[arg-type]
        return task is not None and task.job == job

    hirer.until(poison, fine)

    assert not hirer.outcomes[poison].is_done
    assert "failed" in hirer.outcomes[poison].sentence
    assert hirer.outcomes[fine].is_done


def test_success_without_a_whole_record_is_none(world: World, tmp_path: Path) -> None:
    """A machine that says it is done without its record in the archive is not believed."""
    office, hirer = Office(world), Hirer(world, tmp_path)
    job = hirer.ask("cell")
    while not office.done:
        hirer.go()
        world.good_records.clear()
    hirer.until(job)

    assert not hirer.outcomes[job].is_done
    assert "is not whole in the archive" in hirer.outcomes[job].sentence
    assert not (tmp_path / "receipts/cell.json").exists()


def test_cancel_ends_every_machine_and_confirms(world: World, tmp_path: Path) -> None:
    """What computes and what boots is ended; the jobs are told why."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=3)
    jobs = [hirer.ask(f"c{number}") for number in range(3)]
    office.takes_s = dict.fromkeys(jobs, 9000.0)
    hirer.go(3)
    hirer.tenant.cancel()
    hirer.go(20)

    assert world.alive == []
    assert not hirer.tenant.rented
    assert all("cancelled" in hirer.outcomes[job].sentence for job in jobs)


def test_release_keeps_what_computes(world: World, tmp_path: Path) -> None:
    """Only machines without a task are ended."""
    office, hirer = Office(world), Hirer(world, tmp_path, machines=2)
    long, short = hirer.ask("long"), hirer.ask("short")
    office.takes_s[long] = 3000.0
    hirer.until(short)
    hirer.tenant.release()
    hirer.go(10)

    assert len(world.alive) == 1
    hirer.until(long)
    assert hirer.outcomes[long].is_done
