"""Holds files still: nobody has them open for writing, and nobody opens them meanwhile.

The kernel grants a read lease only on a file that nobody writes to, and lets whoever opens it for
writing wait until the lease is given back (fcntl(2), "Leases").  File systems without leases are
asked the long way, by all open files below /proc; there a writer may come in between.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout

_WRITES = os.O_WRONLY | os.O_RDWR

Identity = tuple[int, int]


class Held(NamedTuple):
    """Files while writers are kept out.

    Args:
        is_still: Whether all are there and nobody has one of them open for writing.
        is_kept: Whether it stays so until the end; else a writer may come in between.
        files: These very files, whatever has their names meanwhile.
    """

    is_still: bool
    is_kept: bool
    files: tuple[Path, ...]


@contextmanager
def held_still(paths: Sequence[Path]) -> Iterator[Held]:
    """Keep writers out for a short while."""
    before = signal.signal(signal.SIGIO, lambda *_: None)  # a waiting writer; it waits for the end
    try:
        with ExitStack() as opened:
            try:
                files = [opened.enter_context(path.open("rb")) for path in paths]
            except FileNotFoundError:  # replaced this very moment
                yield Held(is_still=False, is_kept=False, files=())
                return
            leased = [_lease(file.fileno()) for file in files]
            is_still = False not in leased and not (None in leased and is_written(paths))
            yield Held(is_still, None not in leased, tuple(_opened(f.fileno()) for f in files))
    finally:
        signal.signal(signal.SIGIO, before)


def _lease(file: int) -> bool | None:
    """Whether a file is leased; None where there are no leases.  Closing it gives it back."""
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True


def _opened(file: int) -> Path:
    """A path to a file that is open here, even when its name means another one by now."""
    return Path(layout.PROCESSES, str(os.getpid()), layout.OPEN_FILES, str(file))


def is_written(paths: Iterable[Path]) -> bool:
    """Whether any process of this user has one of these files open for writing."""
    wanted = set(map(_identity, paths)) - {None}
    return any(identity in wanted for identity in _open_for_writing())


def _identity(path: Path) -> Identity | None:
    with suppress(OSError):
        facts = path.stat()
        return facts.st_dev, facts.st_ino
    return None


def _open_for_writing() -> Iterator[Identity]:
    for process in Path(layout.PROCESSES).glob(layout.PROCESS):
        with suppress(OSError):
            for opened in (process / layout.OPEN_FILES).iterdir():
                yield from _written_by(process, opened)


def _written_by(process: Path, opened: Path) -> Iterator[Identity]:
    with suppress(OSError, ValueError, StopIteration):
        facts = opened.stat()
        if stat.S_ISREG(facts.st_mode) and _mode(process, opened.name) & _WRITES:
            yield facts.st_dev, facts.st_ino


def _mode(process: Path, number: str) -> int:
    """Flags of open(2), in octal in the line `flags:`."""
    lines = (process / layout.OPEN_FACTS / number).read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("flags:")), 8)
