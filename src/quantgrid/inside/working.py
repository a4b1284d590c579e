"""One task as a process: watched, asked to leave in time, and ended with all that it started."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import processes
from quantgrid.clock import Clock
from quantgrid.inside.copies import MARK
from quantgrid.rental.lease import End

_TICK_S = 0.05
_KILL_S = 10.0
_WORKS = 0.01
"""Of one processor."""


class Patterns(NamedTuple):
    """What tells of the progress of a task.

    Args:
        log: Its log file.
        told: Files in which scripts say how far they are.
        links: Files that tell of checkpoints.
    """

    log: Path
    told: tuple[Path, ...]
    links: tuple[Path, ...]


class Bounds(NamedTuple):
    """When a task has to leave; seconds of the monotonic clock.

    Args:
        grace_s: From SIGTERM to SIGKILL.
        stall_s: Without progress for this long, it hangs.
        why: The reason to leave at once; None while there is none.
    """

    grace_s: float
    stall_s: float
    why: Callable[[], End | None]


class Working(NamedTuple):
    """How the process of a task ended: its code, and why it was asked to leave, if it was."""

    code: int
    asked: End | None


def run(
    command: str,
    root: Path,
    environment: Mapping[str, str],
    bounds: Bounds,
    patterns: Patterns,
    clock: Clock,
) -> Working:
    """Run the line of a task to its end; nothing that it started is left.

    Args:
        command: For `bash -c`.
        root: Its working copy, where it starts.
        environment: All of its variables; `QG_TASK` marks its descendants.
        bounds: When it has to leave.
        patterns: What tells of its progress.
        clock: Measures it.
    """
    patterns.log.parent.mkdir(parents=True, exist_ok=True)
    patterns.log.write_bytes(b"")
    with patterns.log.open("ab") as log:
        child = subprocess.Popen(
            ["bash", "-c", command],  # noqa: S607 - the image's own
            cwd=root,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _watch(child, bounds, patterns, environment[MARK], clock)
    finally:
        _end(child, environment[MARK])


def _watch(
    child: "subprocess.Popen[bytes]", bounds: Bounds, patterns: Patterns, mark: str, clock: Clock
) -> Working:
    asked: End | None = None
    kill_s, pulse = float("inf"), _Pulse(patterns, mark, clock, bounds.stall_s)
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(_TICK_S)
            return Working(code if code >= 0 else 128 - code, asked)
        now_s = clock.monotonic_s()
        if asked is None:
            asked = bounds.why() or pulse.find_stall()
            if asked:
                kill_s = now_s + bounds.grace_s
                _signal(child, signal.SIGTERM)
        elif now_s >= kill_s:
            _signal(child, signal.SIGKILL)


def _signal(child: "subprocess.Popen[bytes]", number: int) -> None:
    """Tell the line's own process; `exec` made it the runner, which tells its scripts."""
    with suppress(ProcessLookupError):
        os.kill(child.pid, number)


def _end(child: "subprocess.Popen[bytes]", mark: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(_KILL_S)
    while left := processes.marked(mark, MARK):
        processes.signal_all(left, signal.SIGKILL)


class _Pulse:
    """Whether anything of a task still moves.

    A script that tells how far it is has to go on telling; of one that never did, also the work of
    its processes counts, for an evaluation may be silent for long.
    """

    def __init__(self, patterns: Patterns, mark: str, clock: Clock, stall_s: float) -> None:
        self._patterns, self._mark, self._clock, self._stall_s = patterns, mark, clock, stall_s
        self._seen: object = None
        self._since_s = self._looked_s = clock.monotonic_s()
        self._worked_s = 0.0

    def find_stall(self) -> End | None:
        """`STALLED` when nothing moved for too long."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < self._stall_s / 20:
            return None
        self._looked_s = now_s
        told = list(map(_moved, self._patterns.told))
        seen = [_moved(self._patterns.log), *map(_moved, self._patterns.links), *told]
        if seen != self._seen or (not any(told) and self._works(now_s)):
            self._seen, self._since_s = seen, now_s
        return End.STALLED if now_s - self._since_s > self._stall_s else None

    def _works(self, now_s: float) -> bool:
        """Whether its processes used a part of a processor since it last moved."""
        used_s = sum(processes.cpu_s(each.pid) for each in processes.marked(self._mark, MARK))
        is_more = abs(used_s - self._worked_s) > _WORKS * (now_s - self._since_s)
        self._worked_s = used_s if is_more else self._worked_s
        return is_more


def _moved(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        facts = path.stat()
        return facts.st_mtime_ns, facts.st_size
    return None
