"""Which volume this is: named storage is known by an identity that it carries, not by its path."""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.clock import Clock, timestamp
from quantgrid.errors import CorpusRefusal

SCHEMA = "quantgrid/volume"


@dataclass(frozen=True, slots=True)
class Volume:
    """The identity of a volume.

    Args:
        id: Random name, given once.
        workspace: Account scope that the volume lives in.
        created: When the identity was given, ISO 8601 in UTC.
    """

    id: str
    workspace: str
    created: str


def establish(folder: Path, clock: Clock, workspace: str = "local") -> Volume:
    """The identity of a local volume; one is given when the folder has none."""
    value = {
        "schema": SCHEMA,
        "version": 1,
        "id": secrets.token_hex(8),
        "workspace": workspace,
        "created": timestamp(clock.now()),
    }
    path = folder / layout.VOLUME_IDENTITY
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=True):
        atomic.clear_debris(path)
        atomic.create_once(path, atomic.json_bytes(value))
    return identify(folder)


def identify(folder: Path) -> Volume:
    """Read the identity of the volume that is mounted at `folder`.

    Raises:
        CorpusRefusal: when there is no volume, or its identity cannot be read.
    """
    path = folder / layout.VOLUME_IDENTITY
    try:
        value = json.loads(path.read_bytes())
        return Volume(id=value["id"], workspace=value["workspace"], created=value["created"])
    except FileNotFoundError:
        raise CorpusRefusal(
            "no volume is mounted here",
            expected=f"its identity, {layout.VOLUME_IDENTITY}",
            seen="none",
            where=folder,
            do="Mount the volume, or make its corpus: "
            "`snakemake --profile local corpus --forcerun prepare`.",
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusRefusal(
            "the identity of this volume cannot be read",
            expected="a whole record",
            seen=repr(error),
            where=path,
            do="Nothing is lost: put back the identity that the sentinel of its corpus names.",
        ) from error


def require(folder: Path, expected: str) -> Volume:
    """Read the identity of a volume and refuse another one than `expected`.

    Raises:
        CorpusRefusal: naming both identities.
    """
    volume = identify(folder)
    if volume.id != expected:
        raise CorpusRefusal(
            "another volume than the one whose corpus was sealed",
            expected=f"volume {expected}",
            seen=f"volume {volume.id} of workspace {volume.workspace}",
            where=folder,
            do="Nothing is lost, you look at another volume: mount the expected one.",
        )
    return volume


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a folder against every other process of this machine; a dying process lets go.

    Yields:
        True when this process holds it, or when the file system knows no locks (then other guards
        decide); False when another process holds it and `wait` is False.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _lock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    finally:
        os.close(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.ENOLCK}:
            raise
    return True
