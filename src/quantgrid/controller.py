"""One controller per working copy, by a lock that the kernel frees when the process ends."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quantgrid import atomic, layout, workspace
from quantgrid.errors import HoldRefusal
from quantgrid.store import Store

_held: list[IO[str]] = []
"""Open for the life of the process; closing the file would free the lock."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The process that runs a grid in a working copy.

    Args:
        root: The working copy.
        store: The archive's store.
    """

    root: Path
    store: Store

    def start(self) -> None:
        """Take the lock, then remove what dead controllers and attempts left unfinished.

        Raises:
            HoldRefusal: when another controller runs in this working copy.
        """
        self._lock()
        workspace.clear_dead(self.root)
        for folder in layout.PUBLISHED:
            atomic.clear_dead(self.root / folder)
        atomic.clear_dead_in((self.root / layout.LEDGER).parent)
        self.store.clear_dead()
        self._forget_progress()

    def _forget_progress(self) -> None:
        """Whoever still runs tells its progress again; the dead no longer do."""
        for path in (self.root / layout.PROGRESS).glob("*"):
            path.unlink(missing_ok=True)

    def _lock(self) -> None:
        path = self.root / layout.CONTROLLER_LOCK
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise HoldRefusal(
                "a controller already runs in this working copy",
                seen=holder,
                where=self.root,
                do="Wait for it, stop it with Ctrl-C, or use another clone.",
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {os.uname().nodename}\n")
        lock.flush()
        _held.append(lock)
