"""Reads every byte of an archive and names what is not what it says it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from quantgrid import layout
from quantgrid.archive import Archive, bulk
from quantgrid.archive.index import Index
from quantgrid.archive.record import Record
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest_file
from quantgrid.wording import counted

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """A key whose bytes are wrong, foreign or missing, how, and the cells that need it."""

    key: str
    problem: str
    cells: tuple[str, ...] = ()

    def line(self) -> str:
        """All of it for a person; long lists are cut."""
        if not self.cells:
            return f"{self.key}: {self.problem}"
        left = len(self.cells) - _NAMED
        more = f" and {left} more (--json names all)" if left > 0 else ""
        return f"{self.key}: {self.problem}; needed by {', '.join(self.cells[:_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Verification:
    """How much was read, and what was damaged."""

    records: int
    blobs: int
    damages: tuple[Damage, ...]


def verify(
    archive: Archive, cache: Path, told: Callable[[str], None] = lambda _: None
) -> Verification:
    """Re-hash every record and every blob; an index that lacks records is written anew.

    Args:
        archive: What to read.
        cache: Where a store that is not local keeps a copy while it is read.
        told: Gets a line now and then about how far it is.

    Raises:
        PlatformFault: when the store cannot be read.
    """
    reader = _Reader(archive, cache, told, {}, [])
    reader.read_identity()
    reader.read_index()
    keys = [key for kind in layout.RECORD_KINDS for key in archive.store.list(kind)]
    reader.read_records(sorted(keys))
    blobs = sorted(archive.store.list(layout.BLOBS))
    reader.read_blobs(blobs)
    reader.miss_blobs(frozenset(blobs))
    return Verification(len(reader.records), len(blobs), tuple(reader.damages))


@dataclass(frozen=True, slots=True)
class _Reader:
    archive: Archive
    cache: Path
    told: Callable[[str], None]
    records: dict[str, Record]
    damages: list[Damage]

    def read_identity(self) -> None:
        try:
            if self.archive.find_identity() is None and Index(self.archive.store).listed():
                self._name(layout.ARCHIVE_IDENTITY, "is missing")
        except DataFault as fault:
            self._name(layout.ARCHIVE_IDENTITY, fault.message())

    def read_index(self) -> None:
        """An index that is torn or lacks a record is told and mended: it is derived."""
        index = Index(self.archive.store)
        if not self.archive.store.is_remote:
            return
        damage, shown = index.damage(), index.read()
        lacking = index.rebuild() - shown
        if damage or lacking:
            self.told(
                damage or f"the index lacked {counted(len(lacking), 'record')}; it was written anew"
            )

    def read_records(self, keys: list[str]) -> None:
        shaped = [key for key in keys if layout.is_record(key)]
        for key in sorted(set(keys) - set(shaped)):
            self._name(key, "is no record")
        own = Archive(self.archive.store)
        for number, (key, record) in enumerate(bulk.records(own, shaped), start=1):
            if isinstance(record, DataFault):
                self._name(key, record.message(), (layout.owner_of(key),))
            else:
                self.records[key] = record
            self._tell("records", number, len(shaped))

    def read_blobs(self, keys: list[str]) -> None:
        needed = self._needed()
        for number, (key, seen) in enumerate(bulk.each(self._digest, keys), start=1):
            if layout.blob_key(seen) != key:
                self._name(key, f"has bytes with sha256 {seen}", tuple(needed.get(key, ())))
            self._tell("files", number, len(keys))

    def _digest(self, key: str) -> tuple[str, str]:
        with bulk.fetched(self.archive.store, key, self.cache) as path:
            return key, digest_file(path)

    def miss_blobs(self, there: frozenset[str]) -> None:
        for key, cells in sorted(self._needed().items()):
            if key not in there:
                self._name(key, "is missing", tuple(cells))

    def _needed(self) -> Mapping[str, list[str]]:
        """Who needs each blob: one that many cells share is damaged once."""
        found: dict[str, set[str]] = {}
        for key, record in self.records.items():
            for facts in record["blobs"].values():
                owners = found.setdefault(layout.blob_key(facts["sha256"]), set())
                owners.add(layout.owner_of(key))
        return {key: sorted(owners) for key, owners in found.items()}

    def _tell(self, what: str, number: int, total: int) -> None:
        if number % 500 == 0:
            self.told(f"read {number} of {total} {what}")

    def _name(self, key: str, problem: str, cells: tuple[str, ...] = ()) -> None:
        self.damages.append(Damage(key, problem, cells))
