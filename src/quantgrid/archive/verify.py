"""Reads every byte of an archive and names what is not what it says it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.archive import Archive
from quantgrid.archive.record import Record
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest_file


@dataclass(frozen=True, slots=True)
class Damage:
    """A key whose bytes are wrong, foreign or missing, and how."""

    key: str
    problem: str


@dataclass(frozen=True, slots=True)
class Verification:
    """How much was read, and what was damaged."""

    records: int
    blobs: int
    damages: tuple[Damage, ...]


def verify(archive: Archive, cache: Path) -> Verification:
    """Re-hash every record and every blob.

    Args:
        archive: What to read.
        cache: Where a store that is not local keeps copies.

    Raises:
        PlatformFault: when the store cannot be read.
    """
    reader = _Reader(archive, cache, {}, [])
    reader.read_identity()
    keys = [key for kind in layout.RECORD_KINDS for key in archive.store.list(kind)]
    for key in sorted(keys):
        reader.read_record(key)
    blobs = sorted(archive.store.list(layout.BLOBS))
    for key in blobs:
        reader.read_blob(key)
    reader.miss_blobs(frozenset(blobs))
    return Verification(len(reader.records), len(blobs), tuple(reader.damages))


@dataclass(frozen=True, slots=True)
class _Reader:
    archive: Archive
    cache: Path
    records: dict[str, Record]
    damages: list[Damage]

    def read_identity(self) -> None:
        try:
            if self.archive.find_identity() is None and self.archive.index():
                self._name(layout.ARCHIVE_IDENTITY, "is missing")
        except DataFault as fault:
            self._name(layout.ARCHIVE_IDENTITY, fault.message())

    def read_record(self, key: str) -> None:
        if not layout.is_record(key):
            self._name(key, "is no record")
            return
        try:
            self.records[key] = self.archive.record(key)
        except DataFault as fault:
            self._name(key, fault.message())

    def read_blob(self, key: str) -> None:
        seen = digest_file(self.archive.store.fetch(key, self.cache))
        if layout.blob_key(seen) != key:
            self._name(key, f"has bytes with sha256 {seen}")

    def miss_blobs(self, there: frozenset[str]) -> None:
        for record, name, facts in _files(self.records):
            if layout.blob_key(facts["sha256"]) not in there:
                self._name(layout.blob_key(facts["sha256"]), f"is missing: {name} of {record}")

    def _name(self, key: str, problem: str) -> None:
        self.damages.append(Damage(key, problem))


def _files(records: Mapping[str, Record]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for key, record in records.items():
        for name, facts in record["blobs"].items():
            yield key, name, facts
