"""The processes of an attempt: found and ended, whatever they did to leave their group.

A script's processes are its group, and every process whose environment names the attempt.  That
mark is inherited by all that a script starts, also by what starts a session of its own.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from quantgrid import contract

_PATIENCE_S = 10.0
_PAUSE_S = 0.01


def marked(attempt: str) -> list[int]:
    """Processes whose environment at their start named the attempt, but this one."""
    mark = f"{contract.ATTEMPT}={attempt}\0".encode()
    try:
        with os.scandir("/proc") as entries:
            pids = [entry.name for entry in entries if entry.name.isdigit()]
    except FileNotFoundError:  # no Linux
        return []
    return [int(pid) for pid in pids if int(pid) != os.getpid() and mark in _environment(pid)]


def _environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - no file of ours
            return file.read()
    except OSError:  # it ended, or belongs to somebody else
        return b""


def end_all(group: int, attempt: str, *, is_clean: bool) -> None:
    """End what is left of an attempt; one that ended cleanly is asked for its group only."""
    if not is_clean or signal_group(group, 0):
        end(group, attempt)


def end(group: int | None, attempt: str) -> None:
    """SIGKILL for a group and all marked processes, until none is left."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        if group is not None:
            signal_group(group, signal.SIGKILL)
        left = marked(attempt)
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left or time.monotonic() > until_s:
            return
        time.sleep(_PAUSE_S)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a group; whether there was one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextmanager
def guarded(attempt: str) -> Iterator["Guardian"]:
    """While the block runs, a second process waits for the death of this one.

    The kernel ends a script with its runner, but follows one generation only: what the script
    started itself would go on.  When this process dies, the guardian ends them all.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _guard(reader, writer, attempt)
    os.close(reader)
    try:
        yield Guardian(writer)
    finally:
        with suppress(OSError):
            os.write(writer, b"x")
        os.close(writer)
        os.waitpid(pid, 0)


class Guardian:
    """Waits for the death of this process."""

    __slots__ = ("_writer",)

    def __init__(self, writer: int) -> None:
        self._writer = writer

    def watch(self, group: int) -> None:
        """Name the group that must not outlive this process."""
        with suppress(OSError):
            os.write(self._writer, f"{group}\n".encode())


def _guard(reader: int, writer: int, attempt: str) -> None:
    """In the guardian: wait, end what is left, and never return."""
    try:
        os.setsid()  # an interrupt at the terminal is not for this process
        os.close(writer)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.dup2(reader, 3)
        os.closerange(4, 256)  # locks of the runner must not live on here
        said = b""
        while data := os.read(3, 64):
            said += data
        if not said.endswith(b"x"):
            end(int(said.split()[-1]) if said else None, attempt)
    finally:
        os._exit(0)
