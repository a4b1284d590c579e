"""Ends the jobs of a working copy in SLURM, and nothing else: asked, killed, confirmed."""

import time
from collections.abc import Callable
from pathlib import Path

from quantgrid import layout
from quantgrid.errors import PlatformFault
from quantgrid.slurm.ledger import Entry, Ledger
from quantgrid.slurm.queue import Queue, Seen, name_of
from quantgrid.wording import counted

STOPPED = "stopped"
CONTROLLER = "-controller"
"""What the name of a controller's own job ends with."""
LAUNCHED = "controller"
"""The script of such a job."""

_LOOK_EVERY_S = 1.0
_GONE_WITHIN_S = 90.0
"""KillWait (30 s by default), and what slurmctld takes to say so."""


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
    deadline, ended = time.monotonic() + _GONE_WITHIN_S, set[str]()
    while found := queue.live():
        _refuse_after(deadline, found)
        jobs = [each.job for each in found]
        ended.update(jobs)
        queue.cancel(jobs, "--state=PENDING")  # else who waits for the other begins when it ends
        queue.cancel(jobs, "--signal=KILL", "--full")
        queue.cancel(jobs)
        time.sleep(_LOOK_EVERY_S)
    return len(ended)


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
    found = queue.live()
    if found:
        within_s = grace_s + _GONE_WITHIN_S
        tell(f"Ending {counted(len(found), 'job')} in SLURM (up to {within_s:.0f} s).")
    jobs = [each.job for each in found]
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


def _await_none(queue: Queue, within_s: float, *, is_patient: bool = False) -> bool:
    """Wait until no job is left; whether that came.

    Raises:
        PlatformFault: when it did not, unless the caller has something else to try.
    """
    deadline = time.monotonic() + within_s
    while left := queue.live():
        if is_patient and time.monotonic() >= deadline:
            return False
        _refuse_after(deadline, left)
        time.sleep(_LOOK_EVERY_S)
    return True


def _refuse_after(deadline: float, left: list[Seen]) -> None:
    if time.monotonic() >= deadline:
        told = ", ".join(f"{each.job} ({each.state.lower()})" for each in left)
        raise PlatformFault(
            "not every job could be ended",
            seen=f"SLURM jobs {told}",
            do="`squeue --me` tells more; an administrator can end what a node holds.",
        )
