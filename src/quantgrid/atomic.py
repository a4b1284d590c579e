"""Publication of whole files: a reader sees the old bytes or the new ones, never a part.

Every publication is: a temporary file, its bytes, fsync, rename (or link, when nothing may be
overwritten), fsync of the folder.  A crash leaves at most a temporary file; its name tells host and
process, so that `clear_dead` removes what the dead left and nothing of the living.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MARK = ".qgpart-"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_debris(name: str) -> bool:
    """Whether a file name is that of an unfinished publication."""
    return _MARK in name


def clear_debris(path: Path) -> None:
    """Remove what dead publications of `path` left behind; for the only writer of `path`."""
    with suppress(FileNotFoundError):
        for left in path.parent.iterdir():
            if left.name.startswith(path.name + _MARK):
                left.unlink(missing_ok=True)


def publish(path: Path, data: bytes) -> None:
    """Replace `path` by a file with exactly `data`; parents are made.

    Raises:
        OSError: when the disk is full or the folder cannot be written; `path` is unchanged.
    """
    with writing(path) as file:
        file.write(data)


def publish_json(path: Path, value: object) -> None:
    """Publish readable JSON: sorted keys, two blanks of indentation, a newline at the end."""
    publish(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """The bytes that `publish_json` writes: equal values give equal files."""
    return (json.dumps(value, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; publish it when the block ends without an error."""
    with _temporary(path.parent, path.name) as (temporary, file):
        yield file
        _sync(file)
        temporary.replace(path)
    sync_folder(path.parent)


def create_once(path: Path, data: bytes, *, incoming: Path | None = None) -> bool:
    """Publish `data` at `path` only if nothing is there yet; atomically.

    Args:
        path: The target.
        data: Its bytes.
        incoming: Folder for the temporary file, on the same file system; beside `path` if None.

    Returns:
        True when this call created the file, False when it already existed.
    """
    with _temporary(incoming or path.parent, path.name) as (temporary, file):
        file.write(data)
        _sync(file)
        return _link(temporary, path)


def create_once_from(source: Path, path: Path, *, incoming: Path | None = None) -> bool:
    """Like `create_once`, with the bytes of a file, streamed."""
    folder = incoming or path.parent
    with _temporary(folder, path.name) as (temporary, file), source.open("rb") as reader:
        while chunk := reader.read(1 << 20):
            file.write(chunk)
        _sync(file)
        return _link(temporary, path)


def fresh_file(folder: Path) -> os.stat_result:
    """The facts of a file that is written in a folder now and gone afterwards."""
    with _temporary(folder, "now") as (_, file):
        file.write(b"now")
        file.flush()
        return os.fstat(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear_dead(folder: Path) -> int:
    """Remove the temporary files that dead processes of this host left in a tree.

    Returns:
        How many were removed.  Files of other hosts and of living processes stay.
    """
    return sum(clear_dead_in(Path(parent)) for parent, _, _ in os.walk(folder))


def clear_dead_in(folder: Path) -> int:
    """Like `clear_dead`, in one folder only and not below it."""
    dead = [p for p in folder.iterdir() if is_debris(p.name) and _writer_is_dead(p.name)]
    for path in dead:
        path.unlink(missing_ok=True)
    return len(dead)


def _writer_is_dead(name: str) -> bool:
    host, _, process = name.partition(_MARK)[2].rpartition("@")[0].rpartition("@")
    pid, _, start = process.partition(".")
    if host != _host() or not pid.isdigit():
        return False
    return not is_running(int(pid), start)


def is_running(pid: int, start: str) -> bool:
    """Whether a process of this host exists, is no zombie and is not a later one of its number.

    Args:
        pid: Its number.
        start: Its `start_of`; a system that tells none of it is asked for the number alone.
    """
    if start:
        return start_of(pid) == start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start_of(pid: int) -> str:
    """Start of a process in ticks since boot (proc(5), field 22); empty when dead or unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - half the cost, per file
            state, *rest = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if state in b"ZX" else rest[18].decode()


def _host() -> str:
    return os.uname().nodename.replace("/", "-")


def _link(temporary: Path, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    sync_folder(path.parent)
    return True


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _temporary(folder: Path, name: str) -> Iterator[tuple[Path, BinaryIO]]:
    folder.mkdir(parents=True, exist_ok=True)
    pid = os.getpid()
    writer = f"{_host()}@{pid}.{start_of(pid)}"
    temporary = folder / f"{name}{_MARK}{writer}@{os.urandom(4).hex()}"
    try:
        with temporary.open("xb") as file:
            yield temporary, file
    except OSError as error:
        if error.errno in _NO_ROOM and not error.filename:  # a write does not say where it failed
            error.filename = str(folder / name)
        raise
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
