"""What a plugin of a rented platform is made of: jobs of Snakemake on machines of a tenant.

Snakemake ends all jobs when an exception leaves `run_job`, and leaves them all alone when one
leaves `check_active_jobs`; so nothing raises here.  Whoever ends this process ends no machine: the
same call later finds them again.  Decision 0021 says why, and what runs in a machine.
Snakemake imports this at every start, also where nothing is rented: what is needed to rent is
imported on use.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from quantgrid.errors import QuantgridError
from quantgrid.wording import agreeing, counted

if TYPE_CHECKING:
    from quantgrid.rental.collecting import Outcome
    from quantgrid.rental.presence import Presence
    from quantgrid.rental.requests import Job, Requests
    from quantgrid.rental.tenant import Tenant
    from quantgrid.rental.thresholds import Thresholds

__all__ = ["RentedExecutor", "RentedSettings", "common_settings"]

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=True,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    can_transfer_local_files=True,
    init_seconds_before_status_checks=0,
)

_PLAN = "plan"
"""What the Snakefile calls its `quantgrid.workflow.Workflow`."""
_SETTLE_EVERY_S = 1.0
_BEAT_S = 60.0


@dataclass
class RentedSettings(ExecutorSettingsBase):  # type: ignore[misc]  # untyped package
    """Options of every rented platform; each has the prefix of its plugin."""

    cancel_on_exit: bool = field(
        default=False,
        metadata={"help": "End all machines when Snakemake is interrupted."},
    )
    settle_s: int = field(
        default=120,
        metadata={"help": "How long to wait for machines to end when all jobs are done."},
    )


class RentedExecutor(RemoteExecutor):  # type: ignore[misc]  # untyped package
    """Runs jobs on rented machines; its thread starts before any attribute of an object is set."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        # nothing is opened before the controller has its lock, which is before the first job
        self.tenant: Tenant | None = None
        self.requests: Requests | None = None
        self.thresholds: Thresholds | None = None
        self.presence: Presence | None = None
        self.is_paid = self.is_left = False
        self._ended: dict[str, Outcome] = {}
        super().__init__(workflow, logger)

    def __post_init__(self) -> None:
        """All was set before the thread of the base began."""

    # -- what Snakemake calls ---------------------------------------------------------------------

    def run_job(self, job: Any) -> None:
        """Ask for a job; what is wrong with it fails this job and no other."""
        from quantgrid.rental.requests import refuse_uncleared

        try:
            request = self._requests().request(told := _told(job))
            refuse_uncleared(told, is_paid=self.is_paid)
        except Exception as error:  # noqa: BLE001 - else Snakemake cancels every other job
            self.report_job_error(SubmittedJobInfo(job), msg=f"{_sentence(error)} ")
            return
        assert self.tenant is not None  # noqa: S101 - `_requests` made it
        info = SubmittedJobInfo(job, external_jobid=request.job[:12], aux={"job": request.job})
        self.report_job_submission(info, register_job=False)
        self.tenant.ask(request)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """One round of the tenant for all jobs together."""
        await asyncio.to_thread(self._go)
        for info in active_jobs:
            ended = self._ended.pop(info.aux["job"], None)
            if ended is None:
                yield info
            elif ended.is_done:
                self.report_job_success(info)
            else:
                self.report_job_error(info, msg=f"{ended.sentence} ")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Leave the machines alone and say how to come back, unless told to end them."""
        self.is_left = True
        if self.tenant is None:
            return
        self._leave()
        if self.workflow.executor_settings.cancel_on_exit:
            self.tenant.cancel()
            self._settle()
            return
        self._say(
            f"Left {counted(len(active_jobs), 'job')} on rented machines, which go on and cost "
            "money: the "
            "same call of Snakemake comes back to them, `quantgrid stop` ends them, `quantgrid "
            "leases` shows them."
        )

    def shutdown(self) -> None:
        """End the machines that have nothing left to do, and wait until that is confirmed."""
        super().shutdown()
        if self.is_left:
            return
        try:
            self._requests()  # machines of an earlier controller may be left, though no job was
            self._settle()
        except Exception as error:  # noqa: BLE001 - the jobs are done, whatever is wrong here
            self._say(f"{_sentence(error)}  `quantgrid stop` ends what is still rented.")
        self._leave()

    # -- inside -----------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.logger.warning(text)

    def _go(self) -> None:
        try:
            if self.presence:
                with suppress(QuantgridError):
                    self.presence.beat()
            if self.tenant:
                self._round(self.tenant)
        except Exception as error:  # noqa: BLE001 - else Snakemake forgets every job
            self._say(f"a round of the rented machines failed: {error!r}")

    def _round(self, tenant: "Tenant") -> None:
        """A round, and a second one at once when machines are to end that the first one emptied."""
        if self._has_spare(tenant):
            self._has_spare(tenant)
        if self.thresholds:
            self.thresholds.look(tenant.rounds.books)

    def _has_spare(self, tenant: "Tenant") -> bool:
        """A round; whether the next one is the first to end machines for which nothing can come."""
        for outcome in tenant.go():
            self._ended[outcome.job] = outcome  # kept, whatever becomes of the rest
        num_known = tenant.num_given + sum(each.is_done for each in self._ended.values())
        if not tenant.rented or self._may_come(num_known):
            return False
        return any(not lease.is_cancelled for lease in tenant.release().values())

    def _may_come(self, num_known: int) -> bool:
        """Whether a job is left that has no machine yet, beside those that Snakemake hears of now.

        Args:
            num_known: Jobs that have one, or that are done without its knowledge.
        """
        dag, failed = self.workflow.dag, self.workflow.scheduler.failed
        try:
            lost = set(dag.bfs(dag.depending, *failed))  # with all that needs what failed
            jobs = (job for job in dag.needrun_jobs() if not job.is_local and job not in lost)
            return any(True for _ in islice(jobs, num_known, None))
        except RuntimeError:  # Snakemake changes its plan just now
            return True

    def _leave(self) -> None:
        """Whoever leaves on purpose is missed by no machine."""
        if self.presence:
            with suppress(QuantgridError):
                self.presence.leave()
                self.presence = None

    def _settle(self) -> None:
        """Rounds until nothing idle is rented here any more, or patience ends."""
        assert self.tenant is not None  # noqa: S101 - whoever calls has looked
        ends_s = time.monotonic() + self.workflow.executor_settings.settle_s
        self._go()
        while left := self.tenant.release():
            if time.monotonic() > ends_s:
                names = ", ".join(f"{each.cell} ({each.phase})" for each in left.values())
                self._say(
                    f"{counted(len(left), 'lease')} {agreeing(len(left), 'is', 'are')} not over "
                    f"yet: {names}.  `quantgrid stop` ends their machines and confirms it."
                )
                return
            time.sleep(_SETTLE_EVERY_S)
            self._go()

    def _requests(self) -> "Requests":
        """What makes requests; opened at the first job."""
        if self.requests is None:
            self.requests = self._opened(self.workflow.globals[_PLAN])
        return self.requests

    def _opened(self, plan: Any) -> "Requests":
        from quantgrid.archive import opened
        from quantgrid.rental import reach, renting
        from quantgrid.rental.facts import facts_of
        from quantgrid.rental.presence import Presence
        from quantgrid.rental.requests import Requests, programs
        from quantgrid.rental.spend import Caps
        from quantgrid.rental.thresholds import Thresholds

        facts, archive = facts_of(plan.platform), opened.of(plan.settings, plan.root)
        caps = Caps(*plan.settings.money.bounds()) if plan.platform.is_paid else Caps()
        platform = reach.connect(facts)
        self.is_paid = plan.platform.is_paid
        self.tenant = renting.tenant(facts, platform, archive, plan.root, caps, self._say)
        told = (plan.settings.grid, plan.settings.money, plan.settings.notify)
        self.thresholds = Thresholds(*told, archive.store)
        self.presence = Presence(archive.store, self.tenant.rounds.by, facts.real_s(_BEAT_S))
        return Requests(
            plan.code,
            plan.root,
            archive.store,
            facts,
            plan.settings.grid,
            programs(plan.lineage.own.values()),
        )


def _told(job: Any) -> "Job":
    """A job in words of ours."""
    from quantgrid.rental.requests import Job

    params = getattr(job, "params", {})
    return Job(
        rule=job.rule.name,
        command=job.format_wildcards(job.rule.shellcmd),
        inputs=tuple(str(each) for each in job.input),
        outputs=tuple(str(each) for each in job.output),
        log=next((str(each) for each in job.log), ""),
        spec=str(params.get("job", "")),
        resources=dict(job.resources.items()),
    )


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, QuantgridError) else f"not asked for: {error!r}"
