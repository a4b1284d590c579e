"""Ends the jobs of a working copy in SLURM, and nothing else: asked, killed, confirmed."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from quantgrid import layout
from quantgrid.errors import PlatformFault
from quantgrid.slurm.ledger import Entry, Ledger
from quantgrid.slurm.queue import Queue, Seen, name_of

STOPPED = "stopped"
CONTROLLER = "-controller"
"""What the name of a controller's own job ends with."""
LAUNCHED = "controller"
"""The script of such a job."""

_LOOK_EVERY_S = 1.0
_GONE_WITHIN_S = 90.0
"""KillWait (30 s by default), and what slurmctld takes to say so."""


def counted(jobs: int) -> str:
    """So many jobs, as a person says it."""
    return f"{jobs} job{'s' * (jobs != 1)}"


def was_launched(root: Path) -> bool:
    """Whether a controller of a working copy was ever submitted as a job."""
    return any((root / layout.SLURM).glob(f"*.{LAUNCHED}"))


def find_open(root: Path) -> list[Entry]:
    """The submissions of a working copy that may still do something, by its ledger alone."""
    return [entry for entry in Ledger(root).entries() if entry.open]


def end_controllers(root: Path) -> int:
    """End the controllers of a working copy that run as jobs, and those that wait to follow them.

    They are killed: what they follow is found again, and one that lives would submit the next link
    of each job that is stopped.

    Returns:
        How many there were.

    Raises:
        Unanswered: when SLURM does not answer.
        PlatformFault: when one cannot be ended.
    """
    queue = Queue(f"{name_of(root)}{CONTROLLER}")
    found = _live(queue)
    queue.cancel([each.job for each in found.values()], "--signal=KILL", "--full")
    queue.cancel([each.job for each in found.values()])
    _await_none(queue, _GONE_WITHIN_S)
    return len(found)


def end(root: Path, grace_s: float, tell: Callable[[str], object]) -> int:
    """End every job of a working copy; its controller must be dead.

    Args:
        root: The working copy.
        grace_s: Seconds that jobs have to save their state; 0 kills at once.
        tell: Says a line to a person.

    Returns:
        How many jobs there were.

    Raises:
        Unanswered: when SLURM does not answer.
        PlatformFault: when one cannot be ended.
    """
    queue, ledger = Queue(name_of(root)), Ledger(root)
    found = _live(queue)
    if found:
        within_s = grace_s + _GONE_WITHIN_S
        tell(f"Ending {counted(len(found))} in SLURM (up to {within_s:.0f} s).")
    jobs = [each.job for each in found.values()]
    queue.cancel(jobs, "--state=PENDING")
    queue.cancel(jobs, f"--signal={'TERM' if grace_s else 'KILL'}")
    if not _await_none(queue, grace_s, is_patient=True):
        queue.cancel(jobs)
        _await_none(queue, _GONE_WITHIN_S)
    for entry in find_open(root):
        # what a dead controller submitted without an answer may still be on its way
        ledger.give_up(entry.subject, entry.attempts[-1].token)
        ledger.write(entry.with_newest(end=STOPPED))
    return len(found)


def _live(queue: Queue) -> Mapping[str, Seen]:
    return {token: seen for token, seen in queue.look().items() if seen.is_live}


def _await_none(queue: Queue, within_s: float, *, is_patient: bool = False) -> bool:
    """Wait until no job is left; whether that came.

    Raises:
        PlatformFault: when it did not, unless the caller has something else to try.
    """
    deadline = time.monotonic() + within_s
    while left := _live(queue):
        if time.monotonic() >= deadline:
            if is_patient:
                return False
            raise PlatformFault(
                "not every job could be ended",
                seen=f"SLURM jobs {', '.join(each.job for each in left.values())}",
                do="`squeue --me` tells more; an administrator can end what a node holds.",
            )
        time.sleep(_LOOK_EVERY_S)
    return True
