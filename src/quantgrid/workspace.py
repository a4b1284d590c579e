"""Private working directories: one per attempt, swept when the attempt is dead.

An attempt keeps a lock on its directory that the kernel frees when the process ends, however it
ends; a directory whose lock can be taken belongs to nobody.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantgrid.clock import Clock

_LOCK = "lock"


@contextmanager
def attempt(work: Path, clock: Clock) -> Iterator[Path]:
    """Make a private directory below `work`; remove it when the block ends, whatever happened."""
    name = f"{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(3)}"
    folder = work / "attempts" / name
    folder.mkdir(parents=True)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep(work: Path) -> int:
    """Remove the directories of dead attempts.

    Returns:
        How many were removed.
    """
    removed = 0
    attempts = work / "attempts"
    for folder in sorted(attempts.iterdir()) if attempts.is_dir() else []:
        if _is_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _is_dead(folder: Path) -> bool:
    """Whether nobody holds the lock; a directory without one is between mkdir and lock, or torn."""
    try:
        with (folder / _LOCK).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True
