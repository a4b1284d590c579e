"""`snakemake --executor labslurm`: the jobs of a grid on a SLURM cluster with a shared folder.

A job's own line of shell is what SLURM runs: no second and third Snakemake start in its allocation
(3 to 4 s of CPU a job, measured), and none that is gone when a controller is.  Everything that
decides lies in `quantgrid.slurm`; here it meets Snakemake.  Names of resources are those of
snakemake-executor-plugin-slurm, so that a person's profile keeps its meaning (decision 0024).
Snakemake imports this package at every start: SLURM is not asked for anything here.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

_ROUND_S = 1.0


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]
    """What a person may set; `snakemake --help` shows it."""

    ask_s: float = field(
        default=10.0, metadata={"help": "Seconds between two questions to slurmctld, for all jobs."}
    )
    signal_s: int = field(
        default=0,
        metadata={
            "help": "Seconds before a time limit at which SLURM sends SIGTERM as well; 0 where the "
            "site forbids --signal.  A job stops by its own clock before that."
        },
    )
    silence_s: float = field(
        default=120.0,
        metadata={"help": "Seconds until a job that SLURM forgot without a word counts as lost."},
    )
    silent_ends: int = field(
        default=3,
        metadata={"help": "Jobs in a row that may end without a word before a cell has failed."},
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):  # type: ignore[misc]
    """Hands jobs over to one thread that submits and follows them; nothing here raises."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        from quantgrid.clock import SystemClock
        from quantgrid.slurm import follow, judge, queue

        given: ExecutorSettings = workflow.executor_settings
        root = Path.cwd()
        patience = judge.Patience(silence_s=given.silence_s, num_silent=given.silent_ends)
        manners = follow.Manners(given.ask_s, given.signal_s, patience)
        name = queue.Queue(queue.name_of(root))
        self._follower = follow.Follower(root, name, SystemClock(), manners, logger.info)
        self._new: list[SubmittedJobInfo] = []
        super().__init__(workflow, logger)  # starts the thread that follows

    def run_job(self, job: Any) -> None:
        """Leave a job to the thread that follows; what is wrong with it fails this job only."""
        info = SubmittedJobInfo(job)
        try:
            failure = self._follower.begin(_order(job), is_retry=job.attempt > 1)
        except Exception as error:  # noqa: BLE001 - Snakemake would cancel all that runs
            self.report_job_error(info, msg=f"{error}\n")
            return
        if failure:
            self.report_job_error(info, msg=f"{failure.words}\n")
        else:
            self.report_job_submission(info, register_job=False)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """One look at all jobs."""
        self.next_seconds_between_status_checks = _ROUND_S
        known = {_subject(info.job): info for info in active_jobs}
        try:
            ended = dict(self._follower.look_around(known))
        except Exception as error:  # noqa: BLE001 - a round that failed is repeated
            self.logger.error("Looking at the jobs of SLURM failed: %r; it is repeated.", error)
            ended = {}
        for subject, info in known.items():
            info.external_jobid = self._follower.job_of(subject) or None
            if subject not in ended:
                yield info
            elif ended[subject].verdict == "done":
                self.report_job_success(info)
            else:
                self.report_job_error(info, msg=f"{ended[subject].words}\n")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Leave what runs to itself: a job of a day outlives the terminal that started it."""
        self.logger.info(
            "%d jobs go on in SLURM.  The same command follows them again; "
            "`quantgrid stop` ends them, once they have saved their state.",
            len(active_jobs),
        )


def _subject(job: Any) -> str:
    return str(job.output[0])


def _order(job: Any) -> Any:
    """What is asked of SLURM for a job of Snakemake."""
    from quantgrid.slurm import ask, size
    from quantgrid.slurm.batch import Order

    if job.is_group() or not job.is_shell:
        raise WorkflowError("only rules with `shell:` run on SLURM, and no groups")
    logs = tuple(map(str, job.log))
    resources = {name: job.resources.get(name) for name in job.resources.keys()}  # noqa: SIM118
    if not {"mem_mb", "mem_mb_per_cpu"} & resources.keys():
        resources["mem_mb"] = size.find_memory_mb(str(job.params.get("job", "")))
    return Order(_subject(job), job.shellcmd, ask.parse(resources, job.threads), logs)
