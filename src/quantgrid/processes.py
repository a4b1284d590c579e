"""The processes of this machine: which of them lives, stands still, and belongs to a controller.

A controller names itself in the environment of all that it starts.  The name is random, so that a
process number that is used again, or the same number in another container, is never taken for it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid.atomic import start_of

MARK = "QG_CONTROLLER"
"""The variable in which everything that a controller starts carries the controller's name."""

_PROC = "/proc"
_BOOT = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"
_DEAD = "ZX"
_HALTED = "Tt"


class Process(NamedTuple):
    """What proc(5) says of a process in `stat`.

    Args:
        pid: Its number.
        state: One letter: R, S, D, T (stopped by a signal), Z (dead, not yet waited for).
        parent: Number of its parent.
        session: Number of its session's leader.
        start: When it started, in clock ticks since boot.
    """

    pid: int
    state: str
    parent: int
    session: int
    start: str

    @property
    def is_halted(self) -> bool:
        """Whether a signal stopped it, so that it does nothing until SIGCONT."""
        return self.state in _HALTED


def find_process(pid: int) -> Process | None:
    """A living process; None when it is dead or this system has no /proc."""
    try:
        state, *rest = Path(f"{_PROC}/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in _DEAD else Process(pid, state, int(rest[0]), int(rest[2]), rest[18])


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used; 0 when it is gone."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"{_PROC}/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def place() -> str:
    """The boot of this machine and the namespace of its process numbers.

    Within one place a process number with its start means one process.
    """
    boot, namespace = os.uname().nodename, ""
    with suppress(OSError):
        boot = Path(_BOOT).read_text().strip()
        namespace = str(Path(_NAMESPACE).readlink())
    return f"{boot} {namespace}".strip()


def marked(name: str, variable: str = MARK) -> list[Process]:
    """Every living process of this machine that carries a controller's name, in no order.

    Another variable finds what carries another mark.
    """
    entry = f"{variable}={name}".encode()
    return [found for pid in _pids() if _carries(pid, entry) and (found := find_process(pid))]


def _pids() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(path.name) for path in Path(_PROC).iterdir() if path.name.isdigit())


def _carries(pid: int, entry: bytes) -> bool:
    try:
        return entry in Path(f"{_PROC}/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def signal_all(processes: Iterable[Process], *numbers: int) -> None:
    """Send signals, in this order, to each process that still is the one that was found."""
    for process in processes:
        for number in numbers:
            if start_of(process.pid) == process.start:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, number)


# -- this process ---------------------------------------------------------------------------------

_own: list[str] = []


def mark_here(name: str) -> None:
    """Be the controller of a name: what this process starts from now on carries it."""
    _own[:] = [name]
    os.environ[MARK] = name


def find_own_mark() -> str | None:
    """The name of this process, if it is a controller; children only carry it."""
    return _own[-1] if _own else None
