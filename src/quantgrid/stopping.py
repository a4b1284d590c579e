"""Ends a controller with all that it started, and nothing else.

First nobody starts anything new, then running jobs are asked to save their state, then whatever is
left is killed.  Publications are whole files, so that a kill costs time and never a result.
"""

import signal
import time
from collections.abc import Sequence

from quantgrid import processes
from quantgrid.processes import Process
from quantgrid.standing import Holder

_LOOK_EVERY_S = 0.1
_KILL_WITHIN_S = 10.0
_WRITE_WITHIN_S = 30.0
"""For a supervisor to write a line on a machine whose processors are all busy."""


def stop(holder: Holder, grace_s: float) -> int:
    """End a controller of this machine and everything that it started.

    Snakemake starts no further job after SIGTERM, and waits for those that run; they are asked
    in their turn, because Snakemake does not do that.

    Args:
        holder: The controller, dead or alive.
        grace_s: Seconds that jobs have to save their state; 0 kills at once.

    Returns:
        How many processes had to be killed.
    """
    told: set[int] = set()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (family := holder.family()):
        ask(holder, family, told)
        time.sleep(_LOOK_EVERY_S)
    return _kill(holder)


def ask(holder: Holder, family: Sequence[Process], told: set[int]) -> None:
    """Send SIGTERM to the controller and its jobs, once to each; wake those that a signal halted.

    Args:
        holder: The controller.
        family: Its processes, as they are now.
        told: Process numbers that were asked before; those of this call are added.
    """
    own = [each for each in family if each.pid == holder.pid]
    for process in [*own, *jobs(holder, family)]:
        if process.pid not in told:
            told.add(process.pid)
            processes.signal_all([process], signal.SIGTERM)
        processes.signal_all([process], signal.SIGCONT)


def jobs(holder: Holder, family: Sequence[Process]) -> list[Process]:
    """The processes of a family that Snakemake started: children of it, or of nobody any more.

    A job forwards what it is told to its own children.  A warm interpreter leads a session of its
    own, is no job, and dies with its controller.
    """
    numbers = {each.pid for each in family} - {holder.pid}
    return [
        each
        for each in family
        if each.pid != holder.pid and each.parent not in numbers and each.session != each.pid
    ]


def _kill(holder: Holder) -> int:
    """Kill what is left until nothing is; how many that were."""
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_WITHIN_S
    while (family := holder.family()) and time.monotonic() < deadline:
        killed |= {each.pid for each in family}
        processes.signal_all(family, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)
    return len(killed)


def await_supervisor(holder: Holder) -> None:
    """Let the supervisor write down how its controller ended; one that does not is killed."""
    late_s = time.monotonic() + _WRITE_WITHIN_S
    while (found := find_supervisor(holder)) and time.monotonic() < late_s + _KILL_WITHIN_S:
        is_late = time.monotonic() > late_s
        processes.signal_all([found], signal.SIGKILL if is_late else signal.SIGCONT)
        time.sleep(_LOOK_EVERY_S)


def find_supervisor(holder: Holder) -> Process | None:
    """The supervisor of a controller, while it lives: the older leader of its session."""
    if not (holder.supervisor and holder.is_here):
        return None
    found = processes.find_process(holder.supervisor)
    is_it = found and found.session == found.pid and int(found.start) <= int(holder.start)
    return found if is_it else None
