"""Publication of whole files: a reader sees the old bytes or the new ones, never a part.

Every publication is: a temporary file beside the target, its bytes, fsync, rename (or link, when
nothing may be overwritten), fsync of the folder.  A crash leaves at most a temporary file, whose
name `is_debris` recognises.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MARK = ".qgpart-"


def is_debris(name: str) -> bool:
    """Whether a file name is that of an unfinished publication."""
    return _MARK in name


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
    with _temporary(path) as (temporary, file):
        yield file
        _sync(file)
        temporary.replace(path)
    sync_folder(path.parent)


def create_once(path: Path, data: bytes) -> bool:
    """Publish `data` at `path` only if nothing is there yet; atomically.

    Returns:
        True when this call created the file, False when it already existed.
    """
    with _temporary(path) as (temporary, file):
        file.write(data)
        _sync(file)
        return _link(temporary, path)


def create_once_from(source: Path, path: Path) -> bool:
    """Like `create_once`, with the bytes of a file, streamed."""
    with _temporary(path) as (temporary, file), source.open("rb") as reader:
        while chunk := reader.read(1 << 20):
            file.write(chunk)
        _sync(file)
        return _link(temporary, path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, path: Path) -> bool:
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
def _temporary(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}{_MARK}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield temporary, file
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
