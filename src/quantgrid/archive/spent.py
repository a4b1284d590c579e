"""Training state behind results that are in the archive, whole: nobody goes on from it any more."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from quantgrid import hold, layout
from quantgrid.archive import Archive, bulk, difference
from quantgrid.errors import DataFault, PlatformFault
from quantgrid.store import Store
from quantgrid.store.folder import FolderStore

Records = Mapping[tuple[str, str], str]
"""Owner and first digits of the fingerprint to the key of the record."""


class Spent(NamedTuple):
    """State that led to a record.

    Args:
        place: Its folder on the volume, or how its keys begin in the store.
        record: Key of the record.
        size_bytes: What it takes.
        keys: What it consists of.
        folder: Its folder when it lies on a volume.
        held: Who holds the fingerprint now, which keeps the state; empty when nobody does.
        damage: What is wrong with the record or its files, which keeps it too.
    """

    place: str
    record: str
    size_bytes: int
    keys: tuple[str, ...] = ()
    folder: Path | None = None
    held: str = ""
    damage: str = ""

    @property
    def kept(self) -> str:
        """Why it stays, empty when it may go."""
        return self.held or self.damage


def find(archive: Archive, volume: Path, scratch: Path) -> list[Spent]:
    """All state that has a record, on a volume and in the archive's store, and what keeps it.

    Args:
        archive: Where the records are; the bytes of their files are read from its stores.
        volume: Where state lies.
        scratch: A private folder for copies of files while they are read.

    Raises:
        PlatformFault: when a store cannot be read.
    """
    records = {_led_to(key): key for key in archive.index() if not key.startswith("cells/")}
    here = _states(FolderStore(volume), records, volume)
    found = [*here, *_states(archive.store, records)]
    held = _held(archive, found)
    wanted = {each.record for each in found}
    damages = {key: _damage(archive, key, scratch) for key in sorted(wanted - held.keys())}
    return [
        each._replace(held=held.get(each.record, ""), damage=damages.get(each.record, ""))
        for each in found
    ]


def _led_to(key: str) -> tuple[str, str]:
    """Owner and digits of all state that led to a record."""
    owner, fingerprint = layout.owner_of(key), layout.fingerprint_of(key)
    folder = layout.state_folder(Path(), owner, "", fingerprint)
    return layout.state_parts(folder.as_posix())[1:]


def remove(archive: Archive, found: Iterable[Spent]) -> Iterator[Spent]:
    """Remove what nothing keeps, and nobody has come to hold meanwhile; each as it is gone.

    Raises:
        PlatformFault: when something cannot be removed.
    """
    free = [each for each in found if not each.kept]
    held = _held(archive, free)
    for each in free:
        if each.record in held:
            continue
        if each.folder:
            _remove_folder(each.folder)
        for key in () if each.folder else each.keys:
            archive.store.delete(key)
        yield each


def _remove_folder(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise PlatformFault(
            "cannot delete state", seen=error.strerror or error, where=folder
        ) from error


def _states(store: Store, records: Records, volume: Path | None = None) -> Iterator[Spent]:
    """State that has a record; a volume is read as a store, too."""
    found: dict[str, Spent] = {}
    for entry in store.entries(layout.STATE):
        folder, owner, digits = layout.state_parts(entry.key)
        record = records.get((owner, digits))
        if record:
            new = Spent(f"{store.address}/{folder}", record, 0, folder=volume and volume / folder)
            old = found.get(folder, new)
            size = old.size_bytes + entry.size_bytes
            found[folder] = old._replace(size_bytes=size, keys=(*old.keys, entry.key))
    yield from found.values()


def _held(archive: Archive, found: Iterable[Spent]) -> dict[str, str]:
    """Record to who holds its fingerprint."""
    records = {layout.fingerprint_of(each.record): each.record for each in found}
    live = hold.live(archive.store, records)
    return {records[fingerprint]: seen.words() for fingerprint, seen in live.items()}


def _damage(archive: Archive, key: str, scratch: Path) -> str:
    """What is wrong with a record or with a file of it as the stores have them now, or nothing."""
    try:
        record = archive.record(key)
    except DataFault as fault:
        return fault.message()
    for name, facts in record["blobs"].items():
        blob = layout.blob_key(facts["sha256"])
        stores = (archive.store, *archive.others)
        store = next((each for each in stores if each.size(blob) is not None), None)
        if store is None:
            return f"{blob} ({name}) is missing"
        with bulk.fetched(store, blob, scratch) as path:
            seen = difference(path, facts)
        if seen:
            return f"{blob} ({name}) is damaged: {seen}"
    return ""
