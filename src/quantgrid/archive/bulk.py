"""Many records at once: fetched by threads, and each verified like a single one."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from quantgrid import layout
from quantgrid.archive import Archive, difference
from quantgrid.archive.index import Index
from quantgrid.archive.record import Record
from quantgrid.errors import ArchiveRefusal, DataFault
from quantgrid.store import Store

_THREADS = 16
T = TypeVar("T")
K = TypeVar("K")


def each(work: Callable[[K], T], items: Iterable[K]) -> Iterator[T]:
    """The results of some work for many items, in the order of the items."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)


def records(archive: Archive, keys: Iterable[str]) -> Iterator[tuple[str, Record | DataFault]]:
    """Verified records, and the fault of each that is damaged.

    Raises:
        ArchiveRefusal: when one is gone.
        PlatformFault: when the store cannot be read.
    """

    def read(key: str) -> tuple[str, Record | DataFault]:
        try:
            return key, archive.record(key)
        except DataFault as fault:
            return key, fault

    return each(read, keys)


def copy(source: Archive, target: Archive, scratch: Path) -> Iterator[str]:
    """Copy an archive with its identity, so that working copies take it for the same one.

    What is there already is left alone: a copy that was cut goes on.  Files come before the records
    that name them.

    Raises:
        ArchiveRefusal: when the target is another archive.
        DataFault: when something of the source is damaged.
    """
    _same_identity(source, target)
    keys = sorted(Index(source.store).listed() - Index(target.store).listed())
    for key, record in records(source, keys):
        if isinstance(record, DataFault):
            raise record
        for name in record["blobs"]:
            _copy_blob(source, target, record, name, scratch)
        data = source.store.get(key)
        if target.store.is_remote:
            Index(target.store).begin(key)
        target.store.put_once(key, data)
        yield key
    if target.store.is_remote:
        Index(target.store).rebuild()


def _same_identity(source: Archive, target: Archive) -> None:
    own, other = source.identity(), target.find_identity()
    if other is None and not Index(target.store).listed():
        target.store.put_once(layout.ARCHIVE_IDENTITY, source.store.get(layout.ARCHIVE_IDENTITY))
        other = target.find_identity()
    if other != own:
        raise ArchiveRefusal(
            "the place to copy to holds another archive",
            expected=f"archive {own}, or nothing",
            seen=f"archive {other}",
            where=target.store.address,
            do="Copy to an empty place, or read both with `archives` in config/config.yaml.",
        )


def _copy_blob(source: Archive, target: Archive, record: Record, name: str, scratch: Path) -> None:
    facts = record["blobs"][name]
    key = layout.blob_key(facts["sha256"])
    if target.store.size(key) == facts["size_bytes"]:
        return
    with fetched(source.store, key, scratch) as path:
        seen = difference(path, facts)
        if seen:
            raise DataFault(
                f"{key} is damaged, so it was not copied", seen=seen, where=source.store.address
            )
        target.store.put_file_once(key, path)


class fetched:  # noqa: N801 - used as a context manager, like a function
    """A file of a store as it is there now; a copy of a remote one is gone afterwards."""

    def __init__(self, store: Store, key: str, scratch: Path) -> None:
        self._store, self._key, self._scratch = store, key, scratch

    def __enter__(self) -> Path:
        if self._store.is_remote:
            (self._scratch / self._key).unlink(missing_ok=True)
        return self._store.fetch(self._key, self._scratch)

    def __exit__(self, *_: object) -> None:
        if self._store.is_remote:
            (self._scratch / self._key).unlink(missing_ok=True)
