"""Private working directories: one per attempt, cleared when the attempt is dead.

An attempt keeps a lock on its directory that the kernel frees when the process ends, however it
ends; a directory whose lock can be taken belongs to nobody.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from quantgrid import atomic, layout
from quantgrid.clock import Clock


@contextmanager
def attempt(root: Path, clock: Clock, *, of: str = layout.ATTEMPTS) -> Iterator[Path]:
    """Make a private directory of a working copy; remove it when the block ends, however it does.

    Its name is unique: time, process and a random part.  Directories of holders serve their locks
    only: an attempt is one link, and a hold outlives it.
    """
    name = f"{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}-{os.urandom(3).hex()}"
    folder = root / of / name
    with _alone(root):
        folder.mkdir(parents=True)
        lock = (folder / layout.ATTEMPT_LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield folder
        finally:
            _remove(folder)


def copy_id(root: Path) -> str:
    """The random id of a working copy, made at first use."""
    path = root / layout.COPY_ID
    try:
        return path.read_text()
    except FileNotFoundError:
        atomic.create_once(path, os.urandom(16).hex().encode())
        return path.read_text()


def is_dead(root: Path, name: str) -> bool:
    """Whether a holder of a working copy is over: its lock is free, or it was cleared."""
    with _alone(root):
        return _is_dead(root / layout.HOLDERS / name)


def clear_dead(root: Path) -> int:
    """Remove the directories of dead attempts in a working copy.

    Returns:
        How many were removed.
    """
    with _alone(root):
        places = (root / of for of in (layout.ATTEMPTS, layout.HOLDERS))
        dead = [folder for place in places for folder in place.glob("*") if _is_dead(folder)]
        for folder in dead:
            _remove(folder)
    return len(dead)


@contextmanager
def _alone(root: Path) -> Iterator[IO[str]]:
    """Whoever clears never meets a directory that is made and not locked yet."""
    path = root / layout.ATTEMPTS_LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def _remove(folder: Path) -> None:
    """Remove a tree; `shutil` would do, and loads three compressors for it."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(parent, name)
            with suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _is_dead(folder: Path) -> bool:
    """Whether nobody holds the lock of a directory; one without a lock was torn while cleared."""
    try:
        # NFS grants an exclusive lock on files that are open for writing only
        with (folder / layout.ATTEMPT_LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True
