"""One controller per working copy, by a lock that the kernel frees when the process ends."""

import atexit
import fcntl
import json
import os
import select
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from quantgrid import atomic, hearing, layout, processes, standing, workspace
from quantgrid.clock import Clock, SystemClock, timestamp
from quantgrid.errors import HoldRefusal
from quantgrid.standing import Holder
from quantgrid.store import Store

SUPERVISOR = "QG_SUPERVISOR"
"""Tells a controller that it was launched, and by which process."""

_EXPLAINED = 2
"""Which Ctrl-C is answered with a sentence."""
_STOPPING = (
    "\nStopping already: running jobs save their state, and are ended after the platform's grace.  "
    "Once more leaves at once; `quantgrid status` then says what is left.\n"
)

_NOTHING_BEGAN = "\ninterrupted: nothing was started.  The same command begins again.\n"

_held: list[IO[str]] = []
"""Open for the life of the process; closing the file would free the lock."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The process that runs a grid in a working copy.

    Args:
        root: The working copy.
        store: The archive's store.
        clock: The time that its record names.
        grace_s: Seconds that its platform gives jobs to save their state, for whoever ends it.
    """

    root: Path
    store: Store
    clock: Clock = field(default_factory=SystemClock)
    grace_s: float | None = None

    def start(self) -> None:
        """Take the lock, then remove what dead controllers and attempts left unfinished.

        Raises:
            HoldRefusal: when another controller runs in this working copy.
        """
        holder = _here(self.clock)._replace(grace_s=self.grace_s)
        self._lock(holder)
        processes.mark_here(holder.id)
        _hear_aside(signal.SIGTERM)
        _explain_second_interrupt()
        _outlive_terminal(self.root / layout.controller_log(holder.id), self.clock)
        workspace.clear_dead(self.root)
        for folder in (*layout.PUBLISHED, layout.CONTROLLERS):
            atomic.clear_dead(self.root / folder)
        for file in (layout.LEDGER, layout.COPY_ID):
            atomic.clear_dead_in((self.root / file).parent)
        self.store.clear_dead()
        self._forget_progress()

    def _forget_progress(self) -> None:
        """Whoever still runs tells its progress again; the dead no longer do."""
        for path in (self.root / layout.PROGRESS).glob("*"):
            path.unlink(missing_ok=True)

    def _lock(self, holder: Holder) -> None:
        path = self.root / layout.CONTROLLER_LOCK
        path.parent.mkdir(parents=True, exist_ok=True)
        with standing.gate(self.root):
            lock = path.open("a+", errors="replace")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                seen = standing.find_holder(lock.read())
                lock.close()
                raise occupied(self.root, seen) from None
            self._refuse_heard(lock)
            lock.truncate(0)
            lock.write(json.dumps(holder._asdict()) + "\n")
            lock.flush()
            _held.append(lock)

    def _refuse_heard(self, lock: IO[str]) -> None:
        """A lock that is free here may be held on another host, where it is out of our sight."""
        lock.seek(0)
        before = standing.find_holder(lock.read())
        if standing.is_heard_elsewhere(self.root, before):
            lock.close()
            raise occupied(self.root, before)


def occupied(root: Path, holder: Holder | None) -> HoldRefusal:
    """The refusal to start a second controller in a working copy."""
    is_far = holder is not None and not holder.is_of_this_host
    last = f"If that host is gone, try again {standing.SILENCE_S:.0f} s after its last word."
    return HoldRefusal(
        "a controller already runs in this working copy",
        seen=holder or "another process",
        where=root,
        do="Follow it with `quantgrid attach`, end it with `quantgrid stop`, or use another clone."
        + (f"  {last}" if is_far else ""),
    )


def new_id(clock: Clock) -> str:
    """A name for a controller that no other one has."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}-{os.urandom(3).hex()}"


def _here(clock: Clock) -> Holder:
    """This process, under the name that its supervisor gave it or a new one."""
    is_launched = os.environ.pop(SUPERVISOR, "") == str(os.getppid())
    pid = os.getpid()
    return Holder(
        id=os.environ[processes.MARK] if is_launched else new_id(clock),
        pid=pid,
        start=atomic.start_of(pid),
        place=processes.place(),
        host=os.uname().nodename,
        since=timestamp(clock.now()),
        supervisor=os.getppid() if is_launched else 0,
        arguments=tuple(sys.argv[1:]),
    )


# -- signals --------------------------------------------------------------------------------------


def _hear_aside(number: int) -> None:
    """Let a thread do what a signal asks for, where the program has its own answer to it.

    Snakemake's answer to SIGTERM takes the scheduler's lock.  Python gives it in the main thread,
    which mostly has that lock when jobs begin or end, and would then wait for itself for ever.
    """
    answer = signal.getsignal(number)
    if not callable(answer):
        return
    hearing.hear((number,), lambda came: answer(came, None))


def leave_before_the_start() -> None:
    """Until a controller starts, Ctrl-C ends the process with a sentence.

    Who sees in the plan line that a thousand cells would be made presses it then, and Snakemake
    would answer with the place in its code where it came.  Nothing is held or written by then.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    os.write(2, _NOTHING_BEGAN.encode())
    os._exit(128 + number)


def _explain_second_interrupt() -> None:
    """Ctrl-C pressed again, because nothing seems to happen, gets a sentence.

    Passed on, it breaks off Snakemake's clean-up with a traceback, and the last words with it.
    Whoever presses a third time is not held.  At the very end, when Python answers no signal any
    more, a late press would end the process as killed, whatever its last words were: it is ignored.
    """
    answer = signal.getsignal(signal.SIGINT)
    if answer is _leave:
        answer = signal.default_int_handler
    if not callable(answer):
        return
    presses: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        if len(presses) == _EXPLAINED:
            os.write(2, _STOPPING.encode())
        else:
            answer(number, frame)

    signal.signal(signal.SIGINT, hear)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


# -- the terminal ---------------------------------------------------------------------------------


def _outlive_terminal(log: Path, clock: Clock) -> None:
    """Go on when the terminal is closed or its connection drops; output then goes to a log.

    Jobs inherit that SIGHUP is ignored.  Without a terminal nothing changes.
    """
    terminals = [number for number in (0, 1, 2) if os.isatty(number)]
    if terminals:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        arguments = (terminals, log, clock)
        threading.Thread(target=_watch, args=arguments, name="terminal", daemon=True).start()


def _watch(terminals: list[int], log: Path, clock: Clock) -> None:
    """Wait for the end of a terminal, then put a log in its place."""
    poll = select.poll()
    poll.register(terminals[-1], 0)  # POLLHUP and POLLERR come unasked
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as file:
        file.write(f"The terminal was closed at {timestamp(clock.now())}; it goes on.\n".encode())
        for number in terminals:
            os.dup2(file.fileno(), number)
