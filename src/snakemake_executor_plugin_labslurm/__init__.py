"""`snakemake --executor labslurm`: the SLURM plugin, for cells that outlive limits and controllers.

A subclass of snakemake-executor-plugin-slurm: its settings, its choice of a partition, its words of
sbatch, its report of efficiency.  Replaced is what lost or doubled work on a real cluster (decision
0024): how a job is named, found again, judged, handed over and left alone.  SLURM runs the line of
shell of a rule, so no second and third Snakemake starts in an allocation (3 to 4 s of CPU a job,
measured), and none is gone when a controller is.  What decides lies in `quantgrid.slurm`.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_labslurm import stock

_ROUND_S = 1.0
_WITHOUT_MEANING = frozenset(
    {
        *("array_jobs", "array_limit", "disable_memory_fudge", "logdir", "keep_successful_logs"),
        *("delete_logfiles_older_than", "init_seconds_before_status_checks", "jobname_prefix"),
        *("pass_command_as_script", "requeue", "status_attempts"),
    }
)
"""Settings of the plugin that name, find or repeat jobs in its way."""


@dataclass
class ExecutorSettings(stock.plugin.ExecutorSettings):  # type: ignore[misc, name-defined]
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

    def __post_init__(self) -> None:
        self.status_command = None  # squeue is asked, and sacct for what it forgot
        super().__post_init__()
        for each in fields(self):
            if each.name in _WITHOUT_MEANING and getattr(self, each.name) != each.default:
                raise WorkflowError(
                    f"--labslurm-{each.name.replace('_', '-')} has no meaning for labslurm: jobs "
                    "are named, logged and repeated in its own way (docs/guides/slurm.md).  "
                    "Leave it out, or use --executor slurm."
                )
        self.no_requeue = True  # a requeued job is the same job twice, and waits for two minutes
        self.delete_logfiles_older_than = 0  # logs that say something stay


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


class _Trouble:
    """A logger that tells warnings and errors only: the name that is announced is not used."""

    def __init__(self, logger: Any) -> None:
        self.warning, self.error = logger.warning, logger.error

    def info(self, *_: object) -> None:
        """Told to nobody."""

    debug = info


class Executor(stock.plugin.Executor):  # type: ignore[misc, name-defined]
    """Hands jobs over to one thread that submits and follows them; nothing here raises."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        from quantgrid.clock import SystemClock
        from quantgrid.slurm import follow, judge, queue

        queue.leave_job(os.environ)  # the plugin would forget SLURM_CONF with it
        given: ExecutorSettings = workflow.executor_settings
        root = Path.cwd()
        patience = judge.Patience(silence_s=given.silence_s, num_silent=given.silent_ends)
        manners = follow.Manners(given.ask_s, given.signal_s, patience)
        name = queue.Queue(queue.name_of(root))
        self._follower = follow.Follower(root, name, SystemClock(), manners, logger.info)
        super().__init__(workflow, logger)  # starts the thread that follows

    def __post_init__(self, test_mode: bool = False) -> None:
        logger: Any = self.logger
        self.logger: Any = _Trouble(logger)
        super().__post_init__(test_mode)
        self.logger = logger
        self.run_uuid = self._follower.queue.name  # what its report asks accounting for

    def run_jobs(self, jobs: list[Any]) -> None:
        """One by one, in this thread: nothing here waits for SLURM."""
        for job in jobs:
            self.run_job_pre(job)
            self.run_job(job)

    def run_job(self, job: Any) -> None:
        """Leave a job to the thread that follows; what is wrong with it fails this job only."""
        info = SubmittedJobInfo(job)
        try:
            order, was_missing = self._order(job), job.dag.reason(job).missing_output
            failure = self._follower.begin(
                order, is_retry=job.attempt > 1, was_missing=order.subject in map(str, was_missing)
            )
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

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """The first account that a person named; none is guessed, and sbatch refuses a wrong one.

        The plugin asks accounting at each job, which a lab host may lack or miss for a while.
        """
        from snakemake_executor_plugin_labslurm.asking import option

        named = re.split(r"[,\s]+", str(job.resources.get("slurm_account") or ""))
        yield option("-A", named[0])

    def get_partition_arg(self, job: Any) -> str:
        """What a person named, or the best of a file of partitions; else SLURM's own default.

        The plugin asks sinfo for that default, and fails the job while slurmctld is away.
        """
        if job.resources.get("slurm_partition") or self._partitions:
            return str(super().get_partition_arg(job))
        return ""

    def _order(self, job: Any) -> Any:
        """What is asked of SLURM for a job of Snakemake."""
        from quantgrid.slurm import size
        from quantgrid.slurm.batch import Order
        from snakemake_executor_plugin_labslurm import asking

        if job.is_group() or not job.is_shell:
            raise WorkflowError("only rules with `shell:` run on SLURM, and no groups")
        account, partition = next(self.get_account_arg(job)), self.get_partition_arg(job)
        settings, avoided = self.workflow.executor_settings, self._failed_nodes
        ask = asking.of(job, settings, avoided, account=account, partition=partition)
        if not (job.resources.get("mem_mb") or job.resources.get("mem_mb_per_cpu")):
            estimate = size.find_memory_mb(str(job.params.get("job", "")))
            ask = ask.with_memory(estimate or size.LEAST_MB)
        return Order(_subject(job), job.shellcmd, ask, tuple(map(str, job.log)))


def _subject(job: Any) -> str:
    return str(job.output[0])
