"""Runs the process of an attempt to its end: signals passed on, its own clock, nothing left over.

The runner's clock needs no signal of the platform: at the deadline the group gets SIGTERM, and what
is left after the grace gets SIGKILL.  The same grace follows a signal that the runner itself gets.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from quantgrid import child, descendants, oom, said
from quantgrid.clock import Clock, timestamp
from quantgrid.diagnosis import Facts

MARGIN_S = 60.0
MARGIN_SHARE = 0.02
"""What the runner keeps of a cap for itself: to deposit, to write the links and to end."""

ENDS_AT = ("QG_ENDS_AT", "SLURM_JOB_END_TIME")
"""Variables that tell at which Unix time the platform ends this job; sbatch(1) sets the second."""


class Limits(NamedTuple):
    """What a platform allows: its cap and its grace in seconds of this machine's clock.

    `chains` says whether this runner itself starts the next link when a link ended by its cap;
    `interruption_s` is the mean time between two interruptions, where the platform knows it.
    """

    cap_s: float | None = None
    grace_s: float = 30.0
    chains: bool = False
    clock_factor: float = 1.0
    interruption_s: float | None = None

    def deadline_s(self, environment: Mapping[str, str], now_s: float) -> float | None:
        """Seconds from now until the runner ends the script; None if never.

        Args:
            environment: May tell when the platform ends this job (`ENDS_AT`), which counts the time
                before this process too.
            now_s: Unix time.
        """
        told = next((environment[name] for name in ENDS_AT if environment.get(name)), None)
        left = [self.cap_s] if self.cap_s is not None else []
        if told is not None and told.replace(".", "", 1).isdigit():
            left.append(float(told) - now_s)
        if not left:
            return None
        margin_s = min(MARGIN_S / self.clock_factor, MARGIN_SHARE * min(left))
        return max(min(left) - self.grace_s - margin_s, 0.0)


class Ended(NamedTuple):
    """How the process of an attempt ended, and what the runner saw of it."""

    attempt: str
    started: str
    wall_s: float
    cpu_s: float
    exit_code: int
    tail: str
    log: str | None
    facts: Facts


def run(
    arguments: Sequence[str],
    *,
    attempt: str,
    environment: Mapping[str, str],
    deadline_s: float | None,
    limits: Limits,
    clock: Clock,
) -> Ended:
    """Run scripts to their end; nothing that they started is left.

    Args:
        arguments: Those of `child.start`.
        attempt: Id of the attempt.
        environment: All of its variables; `QG_ATTEMPT` marks its descendants.
        deadline_s: Seconds until the runner ends them; None if never.
        limits: The grace.
        clock: Times it.
    """
    started, begin_s, kills = clock.now(), clock.monotonic_s(), oom.find_count()
    with (
        descendants.guarded(attempt) as guardian,
        said.listening() as heard,
        _Watch(deadline_s, limits.grace_s) as watch,
    ):
        running = child.start(arguments, environment, output=heard.output, errors=heard.errors)
        guardian.watch(running.pid)
        watch.begin(running.pid)
        exit_code, cpu_s = running.wait()
        descendants.end_all(running.pid, attempt, is_clean=exit_code == 0)
    return Ended(
        attempt=attempt,
        started=timestamp(started),
        wall_s=round(clock.monotonic_s() - begin_s, 3),
        cpu_s=round(cpu_s, 3),
        exit_code=exit_code,
        tail=heard.tail(),
        log=heard.log,
        facts=Facts(max(oom.find_count() - kills, 0), watch.received, watch.is_over),
    )


class _Watch:
    """Passes signals on to the whole group of a child, and ends it when time is over."""

    def __init__(self, deadline_s: float | None, grace_s: float) -> None:
        self.received: int | None = None
        self.is_over = False
        self._group: int | None = None
        self._deadline_s, self._grace_s = deadline_s, grace_s
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Watch":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._pass_on)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._time_is_over)
        return self

    def begin(self, group: int) -> None:
        """Watch over a group; a signal that came before it was known is passed on now."""
        self._group = group
        if self.received is not None:
            self._send(self.received)
            _ring_in(self._grace_s)
        elif self._deadline_s is not None:
            _ring_in(self._deadline_s)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, old in self._before.items():
            signal.signal(number, old)

    def _send(self, number: int) -> None:
        if self._group is not None:
            # a terminal that closed ends a script no harder than anybody else
            told = signal.SIGTERM if number == signal.SIGHUP else number
            descendants.signal_group(self._group, told)

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        is_first = self.received is None and not self.is_over
        self.received = self.received or number
        self._send(number)
        if is_first and self._group is not None:
            _ring_in(self._grace_s)

    def _time_is_over(self, _: int, __: FrameType | None) -> None:
        if self.is_over or self.received is not None:
            self._send(signal.SIGKILL)
            return
        self.is_over = True
        self._send(signal.SIGTERM)
        _ring_in(self._grace_s)


def _ring_in(seconds: float) -> None:
    """Set the alarm; 0 would take it off."""
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))


def unix_s(clock: Clock) -> float:
    """Unix time of a clock."""
    return clock.now().timestamp()


def full_folders(*folders: str) -> tuple[str, ...]:
    """Those of the folders, or of their nearest parents, whose file system has no room left."""
    return tuple(folder for folder in dict.fromkeys(folders) if _is_full(folder))


def _is_full(folder: str) -> bool:
    while folder:
        try:
            status = os.statvfs(folder)
        except OSError:
            folder = folder.rpartition("/")[0]
            continue
        return status.f_bavail * status.f_frsize < 1 << 20 or status.f_favail == 0 < status.f_files
    return False
