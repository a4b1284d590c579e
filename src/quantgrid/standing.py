"""How the controller of a working copy stands: it runs, is halted, is elsewhere, ended or died.

Everything is read from its lock and from the small files that it leaves; nothing is asked of the
controller itself, so that one which is stopped by a signal can be looked at like any other.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NamedTuple

from quantgrid import layout, processes

_GATE_TRIES, _GATE_PAUSE_S = 100, 0.02

SILENCE_S = 60.0
"""A controller on another host counts as ended after so long without a word; it tells every ten."""


class State(StrEnum):
    """What a controller does."""

    NEVER = "never"
    RUNS = "running"
    HALTED = "halted"
    ELSEWHERE = "elsewhere"
    ENDED = "ended"
    DIED = "died"

    @property
    def is_live(self) -> bool:
        """Whether the working copy belongs to it now."""
        return self in {State.RUNS, State.HALTED, State.ELSEWHERE}


class Holder(NamedTuple):
    """The process that holds, or held, the lock of a working copy; the lock's file says so.

    Args:
        id: Its name, which all that it starts carries.
        pid: Its process number.
        start: When that process started, in clock ticks since boot.
        place: Boot and process namespace that the number belongs to.
        host: Name of the machine, for people.
        since: When it took the lock, ISO 8601 in UTC.
        supervisor: Process number of its supervisor; 0 in the foreground.
        arguments: Snakemake's arguments.
        grace_s: Seconds that its platform gives jobs to save their state; None when nobody said.
    """

    id: str
    pid: int
    start: str
    place: str
    host: str
    since: str
    supervisor: int
    arguments: tuple[str, ...]
    grace_s: float | None = None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def is_here(self) -> bool:
        """Whether its process numbers are those of this machine and boot."""
        return self.place == processes.place()

    @property
    def is_of_this_host(self) -> bool:
        """Whether it ran on this machine: under this kernel, or before its last boot."""
        boot = self.place.partition(" ")[0]
        return boot == processes.place().partition(" ")[0] or self.host == os.uname().nodename

    def find_process(self) -> processes.Process | None:
        """Its process, while it lives on this machine."""
        found = processes.find_process(self.pid) if self.is_here else None
        return found if found and found.start == self.start else None

    def family(self) -> list[processes.Process]:
        """Itself and all that it started and that lives on this machine, in no order."""
        own = self.find_process()
        rest = [each for each in processes.marked(self.id) if each.pid != self.pid]
        return [*([own] if own else []), *rest] if self.is_here else []


class Standing(NamedTuple):
    """What is known of the last controller of a working copy.

    Args:
        root: The working copy.
        state: What it does.
        holder: Who it is or was; None when nobody knows.
        now: What it last told of the grid (see `snakemake_logger_plugin_quantgrid.told`), or {}.
        ended: How its supervisor saw it end: `exit_code` and `at`; {} while nobody did.
        seen: Unix time of its last sign of life; 0 when there is none.
    """

    root: Path
    state: State
    holder: Holder | None
    now: dict[str, Any]
    ended: dict[str, Any]
    seen: float

    @property
    def log(self) -> Path | None:
        """Its log, where it has one of its own."""
        path = self.root / layout.controller_log(self.holder.id) if self.holder else None
        return path if path and path.exists() else None


def look(root: Path) -> Standing:
    """How the controller of a working copy stands; changes nothing."""
    with gate(root):
        is_held, text = _look_at_lock(root / layout.CONTROLLER_LOCK)
    holder = find_holder(text)
    now = _read(root / layout.CONTROLLER_NOW)
    if holder is None or now.get("controller") != holder.id:
        now = {}
    ended = _read(root / layout.controller_end(holder.id)) if holder else {}
    has_ended = ended["exit_code"] >= 0 if ended else now.get("is_over", False)
    is_held = is_held or (not has_ended and is_heard_elsewhere(root, holder))
    state = _state(holder, is_held=is_held, has_ended=has_ended)
    return Standing(root, state, holder, now, ended, _last_sign(root, holder, now))


def is_heard_elsewhere(root: Path, holder: Holder | None) -> bool:
    """Whether a controller on another host told something a moment ago.

    Locks of some shared file systems are seen on one host only: what it tells is then the only sign
    of it.  Clocks of two hosts may differ either way.
    """
    if holder is None or holder.is_of_this_host:
        return False
    now = _read(root / layout.CONTROLLER_NOW)
    told = now.get("told", 0.0) if now.get("controller") == holder.id else 0.0
    return not now.get("is_over", False) and abs(time.time() - told) < SILENCE_S


def _state(holder: Holder | None, *, is_held: bool, has_ended: bool) -> State:
    if is_held and holder and holder.is_here:
        process = holder.find_process()
        return State.HALTED if process and process.is_halted else State.RUNS
    if is_held:
        return State.ELSEWHERE
    if holder is None:
        return State.NEVER
    return State.ENDED if has_ended else State.DIED


@contextmanager
def gate(root: Path) -> Iterator[None]:
    """Whoever takes the lock, or tries whether it is held, does it alone.

    A look would otherwise hold the lock for a moment, and a controller that starts in that moment
    would be refused for nothing.  Nobody waits long: a process that was stopped in here by a signal
    must not keep others from looking.
    """
    path = root / layout.CONTROLLER_GATE
    lock = _find_opened(path, "a+") if path.parent.is_dir() else None
    if lock is None:
        yield
        return
    with lock:
        for _ in range(_GATE_TRIES):
            if is_taken(lock):
                break
            time.sleep(_GATE_PAUSE_S)
        yield


def is_taken(lock: IO[str]) -> bool:
    """Take a lock if nobody holds it; whether this process has it now.

    What was opened for reading is shared with other readers: some systems lock nothing else.
    """
    with suppress(BlockingIOError):
        fcntl.flock(lock, (fcntl.LOCK_EX if lock.writable() else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        return True
    return False


def _find_opened(path: Path, mode: str) -> IO[str] | None:
    """A file to be locked, opened for reading by who may not write it; None when it is not there.

    A colleague looks at a working copy of somebody else.
    """
    with suppress(FileNotFoundError):
        try:
            return path.open(mode, errors="replace")
        except PermissionError:
            return path.open(errors="replace")
    return None


def _look_at_lock(path: Path) -> tuple[bool, str]:
    """Whether somebody holds the lock, and what its file says."""
    lock = _find_opened(path, "r+")
    if lock is None:
        return False, ""
    with lock:
        is_held = not is_taken(lock)
        return is_held, lock.read()


def find_holder(text: str) -> Holder | None:
    """Read what the file of a lock says; None when it says nothing that is understood."""
    try:
        facts = json.loads(text)
        return Holder(**{**facts, "arguments": tuple(facts["arguments"])})
    except (ValueError, TypeError, KeyError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _last_sign(root: Path, holder: Holder | None, now: dict[str, Any]) -> float:
    """The newest time of what a controller and its jobs write while they run."""
    if holder is None:
        return 0.0
    paths = [root / layout.CONTROLLER_LOCK, root / layout.controller_log(holder.id)]
    paths += [root / layout.CONTROLLER_NOW] if now else []
    paths += (root / layout.PROGRESS).glob("*")
    times = [0.0]
    for path in paths:
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)
