"""A controller that runs as a job of SLURM itself, and is followed by the next one at its limit."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.slurm.ending import CONTROLLER, LAUNCHED
from quantgrid.slurm.queue import Queue, name_of

_ASK_EVERY_S = 2.0
_SILENCE_S = 70
"""After the last word of a controller on another host (`standing.SILENCE_S`), with a margin."""

_ENDED = "ended"
"""Holds the exit code of a controller that ended by itself."""

_SCRIPT = """\
#!/bin/sh
# The controller of a working copy.  At its time limit SLURM kills it; the job that waits for its
# end goes on.  What it inherited from SLURM must not reach the jobs that it submits.
cd {root} || exit 71
own=$SLURM_JOB_ID
for name in $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\)=.*/\\1/p'); do
  [ "$name" = SLURM_CONF ] || unset "$name"
done
next=$(sbatch --parsable --dependency=afterany:"$own" {words} {script})
name={name}
if [ -e {begun} ]; then
  sleep {silence}
  name={name}.$own
fi
: > {begun}
{supervisor} "$name" {command}
code=$?
echo $code > {ended}
[ -z "$next" ] || scancel "${{next%%;*}}"
exit $code
"""


class Coordinator:
    """The job of a controller, seen like a process: `poll` gives None while it may still begin."""

    def __init__(self, root: Path, name: str, job: str) -> None:
        self.job, self.returncode = job, 0
        self._ended = root / layout.slurm_file(name, _ENDED)
        self._queue = Queue(f"{name_of(root)}{CONTROLLER}")
        self._asked_s = float("-inf")

    def poll(self) -> int | None:
        """None while SLURM has it; else its exit code, or 1 where it left none."""
        if time.monotonic() < self._asked_s + _ASK_EVERY_S:
            return None
        self._asked_s = time.monotonic()
        if self.job in {seen.job for seen in self._queue.live()}:
            return None
        try:
            self.returncode = int(self._ended.read_text())
        except (OSError, ValueError):
            self.returncode = 1
        return self.returncode


def start(root: Path, name: str, command: Sequence[str], ask: Sequence[str]) -> Coordinator:
    """Submit a controller.

    Args:
        root: The working copy.
        name: The controller's name.
        command: Its program and arguments.
        ask: Words of sbatch for its own job.

    Raises:
        ConfigRefusal: when SLURM refuses it.
        Unanswered: when SLURM does not answer.
    """
    script = root / layout.slurm_file(name, LAUNCHED)
    queue = Queue(f"{name_of(root)}{CONTROLLER}")
    log = root / layout.controller_log(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [
        "--no-requeue",
        f"--job-name={queue.name}",
        f"--comment=controller#{name}",
        f"--output={log}",
        "--open-mode=append",
        *ask,
    ]
    text = _SCRIPT.format(
        root=shlex.quote(str(root)),
        words=shlex.join(words),
        script=shlex.quote(str(script)),
        begun=shlex.quote(str(root / layout.slurm_file(name, "begun"))),
        ended=shlex.quote(str(root / layout.slurm_file(name, _ENDED))),
        name=shlex.quote(name),
        silence=_SILENCE_S,
        supervisor=shlex.join([sys.executable, "-P", "-m", "quantgrid.supervisor"]),
        command=shlex.join(command),
    )
    atomic.publish(script, text.encode())
    return Coordinator(root, name, queue.submit(["sbatch", "--parsable", *words, str(script)], ""))
