"""Nothing leaves the executor of rented machines, and leaving it ends no machine unless told to."""

import asyncio
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from quantgrid.rental import executor
from quantgrid.rental.executor import RentedExecutor, RentedSettings
from quantgrid.rental.facts import Facts
from quantgrid.rental.requests import Requests
from quantgrid.store.folder import FolderStore
from rented_tenant import Hirer, Office
from rented_world import World

FACTS = Facts("memory", "memory", "lab/main", "image", "ID", device="big", num_devices=1)


class Planned(SimpleNamespace):
    """A job of Snakemake's plan, which is itself and equals no other one."""

    __eq__, __hash__ = object.__eq__, object.__hash__  # type: ignore[assignment]


def _followed(direction: dict[Any, list[Any]], *jobs: Any) -> list[Any]:
    """Jobs with those that follow them in a direction."""
    return [*jobs, *(each for job in jobs for each in direction.get(job, []))]


class Desk(RentedExecutor):
    """An executor as Snakemake has it, whose thread a test is."""

    def __init__(self, world: World, root: Path) -> None:
        self.hirer, self.root = Hirer(world, root), root
        self.said: list[str] = []
        self.done: list[str] = []
        self.failed: dict[str, str] = {}
        self.given: list[SubmittedJobInfo] = []
        self.planned: list[Any] = []
        """Jobs that Snakemake has not asked for yet."""
        self.tenant = self.requests = self.presence = self.thresholds = None
        self.is_paid = self.is_left = False
        self._ended = {}
        self.lock, self.wait_thread = threading.Lock(), threading.Thread(target=lambda: None)
        self.wait_thread.start()
        self.workflow = SimpleNamespace(
            executor_settings=RentedSettings(settle_s=600),
            remote_execution_settings=SimpleNamespace(immediate_submit=True),
            dag=SimpleNamespace(needrun_jobs=self._needrun, bfs=_followed, depending={}),
            scheduler=SimpleNamespace(failed=[]),
        )
        self.logger = SimpleNamespace(warning=self.said.append)

    def _needrun(self) -> list[Any]:
        return [*self.planned, *(info.job for info in self.given)]

    def _requests(self) -> Requests:
        store = FolderStore(self.root / "store")
        self.tenant = self.hirer.tenant
        self.requests = self.requests or Requests(self.root, self.root, store, FACTS, "grid", ())
        return self.requests

    def report_job_submission(self, info: SubmittedJobInfo, *, register_job: bool) -> None:
        """A job counts as submitted."""
        assert not register_job
        self.given.append(info)

    def report_job_success(self, info: SubmittedJobInfo) -> None:
        """A job is done."""
        self.done.append(info.job.name)

    def report_job_error(self, info: SubmittedJobInfo, msg: str = "", **_: Any) -> None:
        """A job failed."""
        self.failed[info.job.name] = msg

    def job(self, name: str, line: str = "true", **changes: Any) -> Any:
        """A job as Snakemake has it."""
        facts = {
            "name": name,
            "rule": SimpleNamespace(name="base", shellcmd=line),
            "format_wildcards": lambda text: text.format(),
            "input": [],
            "output": [f"receipts/{name}.json"],
            "log": [f"logs/{name}.log"],
            "params": {},
            "resources": {},
            "is_local": False,
        }
        return Planned(**facts | changes)

    def look(self, rounds: int = 1) -> None:
        """Snakemake's looks, with time between them."""
        for _ in range(rounds):
            self.given = asyncio.run(self._looked())
            self.hirer.world.advance(30.0)

    def look_until_done(self) -> None:
        """Until the first job is done; an hour of the world is far more than it takes."""
        for _ in range(120):
            self.look(0 if self.done else 1)
        assert self.done, self.said

    async def _looked(self) -> list[SubmittedJobInfo]:
        return [info async for info in self.check_active_jobs(self.given)]


@pytest.fixture
def world() -> World:
    """A world where all goes well and machines work off their queues."""
    return World()


@pytest.fixture
def desk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """An executor, for whom a second is half a minute of its world."""
    monkeypatch.setattr(executor.time, "sleep", lambda _: world.advance(30.0))
    (tmp_path / "Snakefile").write_text("")
    return Desk(world, tmp_path)


def test_jobs_are_reported_as_they_end(desk: Desk, world: World) -> None:
    """One is done and one failed, in its own words; Snakemake asks for neither again."""
    office = Office(world)
    for name in ("good", "bad"):
        desk.run_job(desk.job(name))
    office.codes = {desk.given[1].aux["job"]: [70]}
    desk.look(rounds=20)

    assert desk.done == ["good"]
    assert desk.failed == {"bad": "failed: it broke. "}
    assert desk.given == []


def test_a_job_that_cannot_be_asked_for_fails_alone(desk: Desk, world: World) -> None:
    """Whatever is wrong with it: an exception would cancel all the others."""
    Office(world)
    desk.run_job(desk.job("bad", "{no}"))
    desk.run_job(desk.job("odd", resources={"max_usd": "much"}))
    desk.run_job(desk.job("good"))
    desk.look(rounds=20)

    assert desk.failed["bad"] == "not asked for: KeyError('no') "
    assert "could not convert string to float" in desk.failed["odd"]
    assert desk.done == ["good"]


def test_a_paid_machine_is_not_rented_for_a_job_without_a_clearance(desk: Desk) -> None:
    """It is refused before anything is asked of the platform."""
    desk.is_paid = True
    desk.run_job(desk.job("early"))
    desk.look(rounds=3)

    assert "before the screens have passed" in desk.failed["early"]
    assert desk.hirer.world.machines == {}


def test_jobs_stay_when_a_round_breaks(
    desk: Desk, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception would end Snakemake's thread, and with it the knowledge of every job."""
    Office(world)
    desk.run_job(desk.job("good"))
    with monkeypatch.context() as broken:
        broken.setattr(desk.hirer.tenant, "go", lambda: {}["round"])
        desk.look(rounds=2)
        assert [info.job.name for info in desk.given] == ["good"]
        assert "a round of the rented machines failed: KeyError" in desk.said[0]

    desk.look(rounds=20)
    assert desk.done == ["good"]


def test_machines_go_on_when_snakemake_is_interrupted(desk: Desk, world: World) -> None:
    """Neither the interruption nor the end of the process ends one; a person is told how to."""
    world.work = lambda _: None
    desk.run_job(desk.job("long"))
    desk.look(rounds=8)

    desk.cancel_jobs(desk.given)
    calls = len(world.calls)
    desk.shutdown()

    assert len(world.alive) == 1
    assert len(world.calls) == calls  # nobody who typed Ctrl-C waits for anything
    assert "Left 1 job on rented machines, which go on and cost money" in desk.said[-1]


def test_machines_are_ended_when_that_was_asked_for(desk: Desk, world: World) -> None:
    """With `cancel-on-exit` all are gone and paid for when Snakemake comes back."""
    world.work = lambda _: None
    desk.workflow.executor_settings.cancel_on_exit = True
    desk.run_job(desk.job("long"))
    desk.look(rounds=8)
    assert world.alive

    desk.cancel_jobs(desk.given)
    desk.shutdown()

    assert world.alive == []
    assert not desk.hirer.tenant.rounds.register.books().open()


def test_idle_machines_are_ended_when_the_grid_is_done(desk: Desk, world: World) -> None:
    """Snakemake comes back when nothing is rented, and all is paid for."""
    office = Office(world)
    desk.planned = [desk.job("needs what failed")]
    desk.run_job(desk.job("good"))
    desk.look_until_done()
    world.work = lambda _: None
    assert len(world.alive) == 1
    assert office.done

    desk.shutdown()

    assert world.alive == []
    assert not desk.hirer.tenant.rounds.register.books().open()


def _quick_and_long(desk: Desk, world: World) -> None:
    """Two jobs on two machines; look until one of them is done."""
    office = Office(world)
    for name in ("quick", "long"):
        desk.run_job(desk.job(name))
    office.takes_s = {desk.given[1].aux["job"]: 36_000.0}
    desk.look_until_done()


def test_a_machine_is_ended_at_once_when_no_job_can_come(desk: Desk, world: World) -> None:
    """What is left has its machine, and the rest is done here: nobody waits for `idle_s`."""
    desk.planned = [desk.job("fold", is_local=True)]
    _quick_and_long(desk, world)

    (left,) = world.alive  # in the very look that found the other one without work
    assert desk.done == ["quick"]
    assert desk.given[0].aux["job"] in {task.job for task in desk.hirer.tenant.works}
    assert left.ended_s is None


def test_a_machine_stays_warm_when_a_job_may_come(desk: Desk, world: World) -> None:
    """Snakemake asks for a job when its inputs are there, and a machine is there for it."""
    desk.planned = [desk.job("later")]
    _quick_and_long(desk, world)

    desk.look(rounds=2)

    assert len(world.alive) == 2  # though it has nothing to do


def test_a_job_that_needs_what_failed_keeps_no_machine_warm(desk: Desk, world: World) -> None:
    """Snakemake never asks for it: only the machine that works is left."""
    failed, never = desk.job("failed"), desk.job("never")
    desk.planned = [failed, never]
    desk.workflow.scheduler.failed = [failed]
    desk.workflow.dag.depending = {failed: [never]}
    _quick_and_long(desk, world)

    assert len(world.alive) == 1


def test_an_outcome_is_kept_when_the_rest_of_its_round_breaks(desk: Desk, world: World) -> None:
    """A result that the tenant told of once is told of by nobody else."""
    Office(world)
    desk.run_job(desk.job("good"))
    desk.thresholds = SimpleNamespace(look=lambda _: {}["books"])  # type: ignore[assignment]

    desk.look(rounds=20)

    assert desk.done == ["good"]
    assert "KeyError('books')" in desk.said[0]


def test_what_does_not_end_in_time_is_named(
    desk: Desk, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Snakemake comes back all the same, and says which leases are not over."""
    Office(world)
    desk.run_job(desk.job("good"))
    desk.look_until_done()
    world.nemesis.rate = 1.0
    desk.workflow.executor_settings.settle_s = 0

    with caplog.at_level(logging.ERROR):
        desk.shutdown()

    assert "1 lease is not over yet: base of receipts" in desk.said[-1]
    assert not caplog.records


def test_the_end_of_snakemake_is_quiet_when_nothing_reaches_the_platform(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs are done; what is wrong is said, and does not become an error of the grid."""
    monkeypatch.setattr(desk, "_requests", lambda: {}["key"])

    desk.shutdown()

    assert desk.said == [
        "not asked for: KeyError('key')  `quantgrid stop` ends what is still rented."
    ]
