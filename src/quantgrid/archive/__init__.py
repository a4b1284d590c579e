"""The append-only archive: records by kind, owner and fingerprint; files by their sha256.

A deposit is the files first, then the record, each verified after it was written.  A record is
created once: whoever comes second with the same fingerprint gets the first one back.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout
from quantgrid.archive.index import Index
from quantgrid.archive.record import Record, parse_record, refuse_misplaced, sealed
from quantgrid.clock import Clock, timestamp
from quantgrid.errors import ArchiveRefusal, DataFault
from quantgrid.fingerprint import digest_file
from quantgrid.store import Store

__all__ = ["Archive", "Deposit"]


_SAME = ("results", "blobs")
"""What two records of one fingerprint must agree on; times and hosts may differ."""
_NAMED = 3
_CUT = 80


def _no_fence() -> None:
    """Nobody else may publish what this process does."""


class Deposit(NamedTuple):
    """What a receipt says: which record, its digest, in which archive."""

    record: str
    digest: str
    archive: str


class Archive:
    """An archive in a store.

    Args:
        store: Where records are looked for first, and deposited.
        others: Where records are looked for as well.
        pin: The id that the archive must have; empty for any.
    """

    __slots__ = ("others", "pin", "store")

    def __init__(self, store: Store, others: Sequence[Store] = (), pin: str = "") -> None:
        self.store, self.others, self.pin = store, tuple(others), pin

    def find_identity(self) -> str | None:
        """The random id of this archive, or None when nothing was ever deposited.

        Raises:
            ArchiveRefusal: when it is not the one that is pinned.
            DataFault: when the identity object is damaged.
        """
        data = self.store.find(layout.ARCHIVE_IDENTITY)
        found = None if data is None else _identity_of(data, self.store.address)
        if self.pin and found != self.pin:
            raise ArchiveRefusal(
                "this is not the archive that the configuration pins",
                expected=f"archive {self.pin}",
                seen=f"archive {found}" if found else "a place without an archive",
                where=self.store.address,
                do="Nothing is lost: look whether `archive` and `endpoint_url` name the right "
                "place, or change `archive_id`.",
            )
        return found

    def identity(self) -> str:
        """The random id of this archive, which holds records.

        Raises:
            DataFault: when the identity object is damaged or missing.
        """
        found = self.find_identity()
        if found is None:
            raise DataFault(
                "the archive holds records and has no identity",
                expected=layout.ARCHIVE_IDENTITY,
                where=self.store.address,
                do="Restore the file from a copy; the records beside it are not touched.",
            )
        return found

    def other_identities(self) -> frozenset[str]:
        """The ids of the other archives, as far as they have one."""
        found = [Archive(store).find_identity() for store in self.others]
        return frozenset(identity for identity in found if identity)

    def index(self) -> frozenset[str]:
        """The keys of all records, here and in the others; contents are not read.

        Raises:
            PlatformFault: when a store cannot be read: nothing is taken for missing.
        """
        return frozenset().union(*(_index_of(store) for store in (self.store, *self.others)))

    def find_record(self, key: str) -> Record | None:
        """A verified record, or None when the archive lacks it.

        Raises:
            DataFault: when the record is damaged, or belongs under another key.
        """
        for store in (self.store, *self.others):
            data = store.find(key)
            if data is not None:
                return parse_record(data, where=f"{store.address}/{key}", key=key)
        return None

    def record(self, key: str) -> Record:
        """A verified record.

        Raises:
            ArchiveRefusal: when the archive lacks it.
            DataFault: when the record is damaged, or belongs under another key.
        """
        found = self.find_record(key)
        if found is None:
            raise ArchiveRefusal(
                f"the archive lacks {key}",
                where=self.store.address,
                do="Run `snakemake -n --profile local` to see what would make it.",
            )
        return found

    def file(self, record: Record, name: str, cache: Path) -> Path:
        """A local path with verified bytes of a file of a record.

        Raises:
            DataFault: when the bytes are missing or not what the record says.
        """
        expected = record["blobs"][name]
        key = layout.blob_key(expected["sha256"])
        for store in (self.store, *self.others):
            with suppress(KeyError):
                path = store.fetch(key, cache)
                if store.is_remote and difference(path, expected):
                    path.unlink()  # the copy here may have been damaged, not the store's
                    path = store.fetch(key, cache)
                self._verify(key, expected, path)
                return path
        raise self._damaged(key, expected, "nothing")

    def files(self, record: Record, cache: Path) -> dict[str, Path]:
        """Local paths with verified bytes of all files of a record, by name."""
        return {name: self.file(record, name, cache) for name in record["blobs"]}

    def deposit(
        self,
        key: str,
        body: Mapping[str, Any],
        files: Mapping[str, Path],
        *,
        clock: Clock,
        fence: Callable[[], None] = _no_fence,
    ) -> Deposit:
        """Put files and their record; idempotent.

        Args:
            key: Key of the record.
            body: The record without digest; its `blobs` name and describe `files`.
            files: File name to path.
            clock: Dates the archive's identity when this is its first deposit.
            fence: Raises when this process may no longer publish; asked last of all.

        Raises:
            DataFault: when the body belongs under another key, when what is stored differs from
                what was put, or when another result of this fingerprint is there already.
            PlatformFault: when the store cannot be written; nothing half-written is left.
        """
        refuse_misplaced(body, key, self.store.address)
        archive = self._identity(clock)
        for name, path in files.items():
            self._put_file(body["blobs"][name], path)
        if self.store.is_remote:
            Index(self.store).begin(key)
        fence()
        is_first = self.store.put_once(key, atomic.json_bytes(sealed(body)))
        stored = Archive(self.store).record(key)
        if self.store.is_remote:
            Index(self.store).finish(key)
        if not is_first:
            _refuse_other_result(body, stored, f"{self.store.address}/{key}")
        return Deposit(key, stored["digest"], archive)

    def _put_file(self, expected: Mapping[str, Any], path: Path) -> None:
        key = layout.blob_key(expected["sha256"])
        if self.store.size(key) is None:
            self.store.put_file_once(key, path)
        self._verify(key, expected, self.store.fetch(key, self._fresh(key, path.parent)))

    def _fresh(self, key: str, cache: Path) -> Path:
        """A cache that holds no copy of a key: what was just written is read back."""
        copy = cache / key
        if self.store.is_remote:
            copy.unlink(missing_ok=True)
        return cache

    def _verify(self, key: str, expected: Mapping[str, Any], path: Path) -> None:
        seen = difference(path, expected)
        if seen:
            raise self._damaged(key, expected, seen)

    def _damaged(self, key: str, expected: Mapping[str, Any], seen: str) -> DataFault:
        return DataFault(
            f"{key} is damaged",
            expected=f"{expected['size_bytes']} bytes with sha256 {expected['sha256']}",
            seen=seen,
            where=self.store.address,
            do="Restore it from a copy, or move it and the records that name it away.",
        )

    def _identity(self, clock: Clock) -> str:
        """The id of this archive, made now when nothing was ever deposited."""
        if self.find_identity() is None and not _index_of(self.store):
            new = {"id": os.urandom(16).hex(), "created": timestamp(clock.now())}
            self.store.put_once(layout.ARCHIVE_IDENTITY, atomic.json_bytes(new))
        return self.identity()


def _refuse_other_result(body: Mapping[str, Any], stored: Record, where: str) -> None:
    """Name it when one fingerprint was computed twice and did not come out the same."""
    differing = [
        f"{part}.{name}: {_short(stored, part, name)} and {_short(body, part, name)}"
        for part in _SAME
        for name in sorted({*(stored.get(part) or {}), *(body.get(part) or {})})
        if (stored.get(part) or {}).get(name) != (body.get(part) or {}).get(name)
    ]
    if differing:
        raise DataFault(
            "one fingerprint has two results; the first one stays",
            seen="; ".join(differing[:_NAMED]),
            where=where,
            do="Its numbers are not reproducible: find out why before you trust either.",
        )


def _short(record: Mapping[str, Any], part: str, name: str) -> str:
    return str((record.get(part) or {}).get(name, "nothing"))[:_CUT]


def owners(index: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Owner and fingerprint of every cell record in an index."""
    for key in index:
        kind, _, rest = key.partition("/")
        if kind == "cells":
            owner, fingerprint, _ = rest.rsplit("/", 2)
            yield owner, fingerprint


def difference(path: Path, expected: Mapping[str, Any]) -> str | None:
    """How a file is not what a record says of it, None when it is."""
    seen_bytes = path.stat().st_size
    if seen_bytes != expected["size_bytes"]:
        return f"{seen_bytes} bytes"
    seen = digest_file(path)
    return None if seen == expected["sha256"] else f"sha256 {seen}"


def _index_of(store: Store) -> frozenset[str]:
    index = Index(store)
    return index.read() if store.is_remote else index.listed()


def _identity_of(data: bytes, address: str) -> str:
    try:
        return _text(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataFault(
            "the archive's identity cannot be read",
            expected='JSON with an "id"',
            seen=repr(data[:60]),
            where=f"{address}/{layout.ARCHIVE_IDENTITY}",
            do="Restore the file from a copy; the records beside it are not touched.",
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
