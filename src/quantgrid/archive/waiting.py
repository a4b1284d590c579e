"""Finished work whose archive cannot be written waits on the volume, and is deposited later.

Credentials expire, networks fail, buckets fill up: none of it is a reason to train again.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout
from quantgrid.archive import Archive, Deposit
from quantgrid.archive.index import Index
from quantgrid.archive.record import Record, parse_record, sealed
from quantgrid.clock import Clock
from quantgrid.errors import DataFault, PlatformFault, Waiting

_SPARE_BYTES = 256 << 10
"""Larger than a record, and than what the file system adds to it."""


def keep(root: Path, key: str, body: Mapping[str, Any], files: Mapping[str, Path]) -> Path:
    """Move the files of a record aside and publish its body beside them; where that is.

    The body comes last: a folder without one is the rest of a process that died.
    """
    folder = layout.waiting_folder(root, key)
    (folder / layout.WAITING_FILES).mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        _move(path, folder / layout.WAITING_FILES / name)
    atomic.publish_json(folder / layout.WAITING_BODY, sealed(body))
    return folder


def _move(path: Path, target: Path) -> None:
    """Move a file, in a rented machine from its own disk to the volume."""
    try:
        path.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with path.open("rb") as reader, atomic.writing(target) as writer:
            while chunk := reader.read(1 << 20):
                writer.write(chunk)
        path.unlink()


def spare_room(attempt: Path) -> None:
    """Take the room that a waiting record needs, before a script can fill the disk."""
    with suppress(OSError), (attempt / layout.ATTEMPT_SPARE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _SPARE_BYTES)


def deposit_or_keep(
    root: Path,
    archive: Archive,
    key: str,
    body: Mapping[str, Any],
    files: Mapping[str, Path],
    *,
    attempt: Path | None = None,
    **how: Any,
) -> Deposit:
    """Deposit a record, or let it wait when the archive cannot be written.

    Args:
        root: The working copy whose volume it would wait on.
        archive: Where it belongs.
        key: Key of the record.
        body: The record.
        files: File name to path; moved away when they have to wait.
        attempt: The folder whose spare room may be used for it.
        how: Further arguments of `Archive.deposit`.

    Raises:
        Waiting: when it waits now.
        PlatformFault: when it cannot even wait; nothing half-written is left.
    """
    try:
        return archive.deposit(key, body, files, **how)
    except PlatformFault as fault:
        if attempt:
            (attempt / layout.ATTEMPT_SPARE).unlink(missing_ok=True)
        try:
            folder = keep(root, key, body, files)
        except OSError as error:
            raise _unkept(root, key, fault, error) from error
        raise _kept(root, key, fault, folder) from fault


def _unkept(root: Path, key: str, fault: PlatformFault, error: OSError) -> PlatformFault:
    """What has no record is no result: it would only take room."""
    folder = layout.waiting_folder(root, key)
    if folder.is_dir():
        clear(folder)
    return PlatformFault(
        f"the result is finished; it could not be deposited ({fault.what}), and has no room to "
        "wait for that",
        expected="a few hundred kilobytes",
        seen=error.strerror or error,
        where=folder,
        do="Make room and run again: it goes on from its newest checkpoint.",
    )


def _kept(root: Path, key: str, fault: PlatformFault, folder: Path) -> Waiting:
    return Waiting(
        f"the result is finished and could not be deposited: {fault.what}",
        expected=fault.expected,
        seen=fault.seen,
        where=f"{key} waits in {folder.relative_to(root)}",
        do="Nothing is lost or made again: mend what is named (" + (fault.do or "see above") + ") "
        "and run again, or `quantgrid archive deposit`.",
    )


def find(root: Path, key: str) -> Record | None:
    """The record that waits under a key, None when none does."""
    path = layout.waiting_folder(root, key) / layout.WAITING_BODY
    with suppress(FileNotFoundError, DataFault):
        return parse_record(path.read_bytes(), where=str(path), key=key)
    return None


def keys(root: Path) -> Iterator[str]:
    """The keys of all records that wait, sorted."""
    for path in sorted((root / layout.WAITING).glob(f"*/{layout.WAITING_BODY}")):
        with suppress(ValueError, KeyError, TypeError):
            told = json.loads(path.read_bytes())
            yield layout.record_key(told["kind"], told["cell"], told["fingerprint"])


def deposit(root: Path, archive: Archive, key: str, clock: Clock) -> bool:
    """Deposit the record that waits under a key, if one does; whether one did.

    Raises:
        DataFault: when its files are no longer what it says.
        PlatformFault: when the archive still cannot be written; it goes on waiting.
    """
    record = find(root, key)
    if record is None:
        return False
    folder = layout.waiting_folder(root, key)
    files = {name: folder / layout.WAITING_FILES / name for name in record["blobs"]}
    sealing = {"schema", "version", "digest"}
    body = {name: value for name, value in record.items() if name not in sealing}
    archive.deposit(key, body, files, clock=clock)
    (folder / layout.WAITING_BODY).unlink()
    clear(folder)
    return True


def clear(folder: Path) -> None:
    """Remove what was deposited; imported late, for the runner starts once per job."""
    import shutil

    shutil.rmtree(folder)


def start(root: Path, archive: Archive, clock: Clock) -> None:
    """What a controller does first: deposit what waits, and pack the index when it has grown."""
    for record in deposit_all(root, archive, clock):
        print(f"deposited {record}, which had waited here", file=sys.stderr, flush=True)
    if archive.store.is_remote:
        Index(archive.store).compact()


def deposit_all(root: Path, archive: Archive, clock: Clock) -> Iterator[str]:
    """Deposit everything that waits; the keys, one by one as they are done."""
    for key in list(keys(root)):
        if deposit(root, archive, key, clock):
            yield key
