"""Calls to SLURM, each bounded and with three outcomes: it did, it refused, or nobody knows."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from quantgrid import processes, workspace
from quantgrid.errors import ConfigRefusal, PlatformFault, Unanswered

PATIENCE_S = 60.0
"""For one call: slurmctld's own clients give up after MessageTimeout (10 s), several times."""

_LIVE = frozenset(
    {
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"),
        *("STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "REQUEUED"),
        *("REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    }
)
"""States in which a job still is, or will be, on a node (squeue(1), "JOB STATE CODES")."""

_REFUSED = (
    "Invalid",
    "not permitted",
    "violates",
    "not available",
    "Batch job submission failed: Requested",
    "Memory specification",
    "unrecognized option",
    "invalid",
    "Unable to open file",
)
"""Words with which sbatch refuses what it was asked; all others say that nobody was reached."""

_ONLY_LATER = ("QOSMaxSubmit", "AssocMaxSubmit", "MaxSubmitJobs", "job submit limit")
"""A refusal that ends by itself, when earlier jobs end."""


_OVER = ("Invalid job id specified", "Job/step already completing or completed")
"""What scancel says of a job that is over (seen on 22.05)."""


class Seen(NamedTuple):
    """What SLURM says of a submission.

    Args:
        job: Its id.
        state: In SLURM's words, without what follows them.
        where: The node, or why it waits.
    """

    job: str
    state: str
    where: str = ""

    @property
    def is_live(self) -> bool:
        """Whether it is not over."""
        return self.state in _LIVE


class Queue(NamedTuple):
    """The jobs of one working copy: they share a name, and each has its token in its comment.

    Args:
        name: That name.
        patience_s: Seconds for one call.
    """

    name: str
    patience_s: float = PATIENCE_S

    def submit(self, words: Sequence[str], script: str) -> str:
        """Submit a script.

        Returns:
            The id that SLURM gave it.

        Raises:
            ConfigRefusal: when SLURM will never take it.
            Unanswered: when it may have been taken: look before repeating.
        """
        done = self._call(words, given=script)
        job = done.stdout.strip().split(";")[0]
        if done.returncode == 0 and job.isdigit():
            return job
        said = " ".join(done.stderr.split()) or done.stdout.strip()
        is_refused = any(word in said for word in _REFUSED)
        if is_refused and not any(word in said for word in _ONLY_LATER):
            raise ConfigRefusal(
                "SLURM refuses this job",
                seen=said,
                do="Change its resources: `set-resources` in the profile, or its platform.",
            )
        raise Unanswered("sbatch did not say whether it took the job", seen=said)

    def look(self) -> dict[str, Seen]:
        """All jobs that slurmctld knows, by token; those that ended stay for MinJobAge.

        Raises:
            Unanswered: when slurmctld does not answer.
        """
        return {_token(row[2]): Seen(row[0], row[1], row[3]) for row in self._known()}

    def live(self) -> list[Seen]:
        """Each job that is not over; a controller and the one that follows it share a token.

        Raises:
            Unanswered: when slurmctld does not answer.
        """
        found = [Seen(row[0], row[1], row[3]) for row in self._known()]
        return [each for each in found if each.is_live]

    def _known(self) -> list[list[str]]:
        form = "%i|%T|%k|%R"
        rows = self._rows(["squeue", "-h", "-a", "-t", "all", "-n", self.name, "-o", form])
        return [row for row in rows if len(row) >= 4]

    def recall(self, since: float, ids: Mapping[str, str]) -> dict[str, Seen]:
        """What accounting has of submissions that slurmctld forgot, by token.

        Args:
            since: Unix time of the earliest of them.
            ids: Token to SLURM's id: not every site stores comments.

        Raises:
            Unanswered: when accounting does not answer, or there is none.
        """
        start = f"{datetime.fromtimestamp(since - 60):%Y-%m-%dT%H:%M:%S}"
        fields = "JobIDRaw,State,Comment,NodeList"
        command = ["sacct", "-X", "-n", "-P", "-S", start, f"--name={self.name}", "-o", fields]
        tokens = {job: token for token, job in ids.items() if job}
        found = {}
        for job, state, comment, where, *_ in self._rows(command):
            token = _token(comment) if comment else tokens.get(job, "")
            found[token] = Seen(job, state.split()[0], where)
        return found

    def cancel(self, jobs: Iterable[str], *options: str) -> None:
        """End jobs, or signal them; those that are over are none.

        Raises:
            Unanswered: when slurmctld does not answer.
        """
        given = list(jobs)
        if given:
            done = self._call(["scancel", *options, *given])
            said = [line for line in done.stderr.splitlines() if line.strip()]
            if not said or not all(line.endswith(_OVER) for line in said):
                self._told(done)

    def _rows(self, command: Sequence[str]) -> list[list[str]]:
        lines = self._told(self._call(command)).splitlines()
        return [line.split("|") for line in lines if "|" in line]

    def _told(self, done: "subprocess.CompletedProcess[str]") -> str:
        if done.returncode:
            program, said = done.args[0], " ".join(done.stderr.split())
            raise Unanswered(f"{program} did not answer", seen=said[:300])
        return done.stdout

    def _call(
        self, command: Sequence[str], given: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        if shutil.which(command[0]) is None:
            raise PlatformFault(
                f"there is no {command[0]} on this machine",
                do="Start where SLURM's programs are: on a login node of the cluster.",
            )
        try:
            return subprocess.run(
                command,
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                text=True,
                env=environment(os.environ),
                timeout=self.patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unanswered(
                f"{command[0]} did not answer within {self.patience_s:.0f} s"
            ) from None


def name_of(root: Path) -> str:
    """The name that all jobs of a working copy have in SLURM."""
    return f"quantgrid-{workspace.copy_id(root)[:12]}"


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What a submission inherits: nothing of a job that the controller itself may be.

    A controller ends what carries its mark on its own host; a job of SLURM is not its child.
    """
    return {
        name: value
        for name, value in own.items()
        if name != processes.MARK and not _is_of_a_job(name)
    }


def leave_job(own: MutableMapping[str, str]) -> None:
    """Forget the job that this process may be in; where SLURM is stays known."""
    for name in [name for name in own if _is_of_a_job(name)]:
        del own[name]


def _is_of_a_job(name: str) -> bool:
    return name.startswith(("SLURM_", "SRUN_")) and name != "SLURM_CONF"


def _token(comment: str) -> str:
    return comment.rpartition("#")[2]
