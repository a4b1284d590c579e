"""The script of one submission: it begins once, runs the job, and leaves its exit code in a file.

SLURM shows 1:0 for any code of a step, and none of a job that it ended (measured on 22.05): the
reason for the next link therefore travels in a file of the shared folder.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout

_LONG = 10
"""Limits that are so many times the notice get one: SLURM may be a minute early (sbatch(1))."""
GIVEN_UP = "given up"
"""In the place of a start: this submission must not begin any more."""


class Ask(NamedTuple):
    """What a job asks for.

    Args:
        words: Options of sbatch.
        cpus: Cores of its only task; None for all that SLURM gives it.
        runtime_min: Its time limit; None leaves it to the partition.
    """

    words: tuple[str, ...]
    cpus: int | None = None
    runtime_min: int | None = None

    def with_memory(self, memory_mb: int) -> "Ask":
        """With so many megabytes."""
        return self._replace(words=(*self.words, f"--mem={memory_mb}M"))


class Order(NamedTuple):
    """A job to be done.

    Args:
        subject: What it makes: its first output, relative to the working copy.
        command: A line of shell.
        ask: What it asks of SLURM.
        logs: The logs that its command writes.
    """

    subject: str
    command: str
    ask: Ask
    logs: tuple[str, ...] = ()


_SCRIPT = """\
#!/bin/sh
# {subject}, submission {token}
cd {root} || exit 71
{ends_at}export QG_LINE={command} QG_END={end} QG_WAITS=$(mktemp)
trap : TERM
# srun fails while slurmctld is away; what has not begun is tried again
for try in $(seq {tries}); do
  srun --ntasks=1 --nodes=1 --cpus-per-task={cpus} sh -c {tell}
  code=$?
  # begun, or given up; srun may come back when its controller has cleared that away
  [ ! -e {start} ] || break
  [ -z "$QG_WAITS" ] || [ -e "$QG_WAITS" ] || break
  sleep {pause_s}
done
rm -f "$QG_WAITS"
exit $code
"""

_TELL = """\
# whoever creates this file first decides: this job begins, or its controller gave it up
( set -C; echo "$SLURM_JOB_ID on $(hostname)" > {start} ) 2> /dev/null || exit 0
rm -f "$QG_WAITS"
trap : TERM
{aside}bash -euo pipefail -c "$QG_LINE"
code=$?
echo $code > "$QG_END.part" && mv "$QG_END.part" "$QG_END"
exit $code
"""
"""In the step: SIGTERM is for the job, and this shell stays to tell how it ended.

srun cannot tell: when a node fails it ends a job and gives 0 (seen on 22.05).
"""
_TRIES, _PAUSE_S = 100, 3
"""srun waits for slurmctld itself before each failure; the time limit ends it at the latest."""


def script(order: Order, token: str, root: Path, number: int) -> str:
    """The batch script of a submission.

    Args:
        order: The job.
        token: Names the submission.
        root: The working copy, at the same place on every node.
        number: Which attempt at the subject it is, from 1.
    """
    limit_min = order.ask.runtime_min
    start = shlex.quote(layout.slurm_file(order.subject, f"{token}.start"))
    aside = "" if number == 1 else _aside(order, token)
    ends_at = f"${{SLURM_JOB_END_TIME:-$(($(date +%s) + {(limit_min or 0) * 60}))}}"
    return _SCRIPT.format(
        subject=order.subject,
        token=token,
        root=shlex.quote(str(root)),
        start=start,
        end=shlex.quote(layout.slurm_file(order.subject, f"{token}.end")),
        ends_at="" if limit_min is None else f"export QG_ENDS_AT={ends_at}\n",
        cpus=order.ask.cpus or "${SLURM_CPUS_ON_NODE:-1}",
        command=shlex.quote(order.command),
        tell=shlex.quote(_TELL.format(start=start, aside=aside)),
        tries=_TRIES,
        pause_s=_PAUSE_S,
    )


def _aside(order: Order, token: str) -> str:
    """Keep the log of the attempt before: a process that was left behind may still write to it."""
    logs = [shlex.quote(log) for log in order.logs]
    return "".join(f"[ ! -e {log} ] || mv {log} {log}.before-{token}\n" for log in logs)


def submission(order: Order, token: str, name: str, *, grace_s: float) -> list[str]:
    """The words of sbatch.

    Args:
        order: The job.
        token: Names the submission.
        name: The name that all jobs of this working copy have.
        grace_s: Seconds before the time limit at which SLURM sends SIGTERM; 0 for not at all.
    """
    limit_s = 60 * (order.ask.runtime_min or 0)
    is_signalled = grace_s and limit_s >= _LONG * grace_s
    return [
        "sbatch",
        "--parsable",
        "--export=ALL",
        f"--job-name={name}",
        f"--comment={order.subject}#{token}",
        f"--output={layout.slurm_log(order.subject, token)}",
        *([f"--signal=TERM@{grace_s:.0f}"] if is_signalled else []),
        *order.ask.words,
    ]
