"""The index of an archive: all its records in a few requests, where a listing costs a thousandth.

A deposit announces its record before it is put (`begun`) and after (`done`).  Now and then somebody
packs what is known into one object, and what a pack has named for a while is no longer announced.
The index is derived: a record that it lost is still there, and a listing of all finds it.
`docs/formats/archive.md` says why no crash and no race loses one.
"""

import json
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import DataFault, PlatformFault
from quantgrid.fingerprint import digest
from quantgrid.store import Entry, Store

SCHEMA = "quantgrid/index"
_GRACE = timedelta(minutes=5)
"""How long an announcement outlives the pack that names it: no listing takes that long."""
_DEAD = timedelta(days=1)
"""After this, a deposit that was announced and did not happen is forgotten."""
_ENOUGH = 64
"""As many records are worth a new pack."""
_SHARE = 8
"""Of 256 deposits as many look whether a new pack is due."""


class Pack(NamedTuple):
    """An object that lists records."""

    number: int
    records: frozenset[str]


class _Found(NamedTuple):
    """What one listing of the index shows."""

    packs: list[Entry]
    begun: list[Entry]
    done: list[Entry]


class Index(NamedTuple):
    """The index of the archive in a store.

    Args:
        store: Where the archive is.
        grace: How long an announcement outlives the pack that names it.
    """

    store: Store
    grace: timedelta = _GRACE

    # -- reading ----------------------------------------------------------------------------------

    def read(self) -> frozenset[str]:
        """The keys of all records; a listing of all when no pack can be read."""
        return self._read(self._look())

    def _read(self, found: _Found) -> frozenset[str]:
        pack = self._newest(found)
        if pack is None:
            return self.listed()
        done = {_record(entry) for entry in found.done}
        begun = {_record(entry) for entry in found.begun} - done - pack.records
        return pack.records | done | {key for key in begun if self.store.size(key) is not None}

    def listed(self) -> frozenset[str]:
        """The keys of all records, from a listing of all."""
        return frozenset(
            key
            for kind in layout.RECORD_KINDS
            for key in self.store.list(kind)
            if layout.is_record(key)
        )

    def damage(self) -> str | None:
        """What is wrong with the newest pack, None when nothing is or there is none."""
        found = self._look()
        try:
            if found.packs:
                self._pack(found.packs[-1])
        except DataFault as fault:
            return fault.message()
        return None

    def _look(self) -> _Found:
        found = _Found([], [], [])
        areas = ((layout.INDEX_PACKS, found.packs), (layout.INDEX_BEGUN, found.begun))
        for entry in self.store.entries(layout.INDEX):
            for prefix, entries in (*areas, (layout.INDEX_DONE, found.done)):
                if entry.key.startswith(f"{prefix}/"):
                    entries.append(entry)
        packs = [entry for entry in found.packs if layout.number_of_pack(entry.key)]
        return found._replace(packs=sorted(packs))

    def _newest(self, found: _Found) -> Pack | None:
        """The newest pack; None when it is damaged, for an older one may lack records."""
        try:
            return self._pack(found.packs[-1]) if found.packs else None
        except DataFault:
            return None

    def _pack(self, entry: Entry) -> Pack:
        where = f"{self.store.address}/{entry.key}"
        try:
            told = json.loads(zlib.decompress(self.store.get(entry.key)))
            records, seen = frozenset(told["records"]), digest(told["records"])
        except (ValueError, LookupError, TypeError, zlib.error) as error:
            raise DataFault(
                "a pack of the index cannot be read", expected=SCHEMA, seen=error, where=where
            ) from error
        if (told.get("schema"), told.get("digest")) != (SCHEMA, seen):
            raise DataFault(
                "a pack of the index is damaged",
                expected=told.get("digest"),
                seen=seen,
                where=where,
            )
        return Pack(layout.number_of_pack(entry.key) or 0, records)

    # -- writing ----------------------------------------------------------------------------------

    def begin(self, key: str) -> None:
        """Announce a record that will be put."""
        self.store.put_once(f"{layout.INDEX_BEGUN}/{key}", b"")

    def finish(self, key: str) -> None:
        """Announce a record that was put; one of some dozens packs what has gathered."""
        with suppress(PlatformFault):  # what was begun is found as well, by a look at the record
            self.store.put_once(f"{layout.INDEX_DONE}/{key}", b"")
            self.store.delete(f"{layout.INDEX_BEGUN}/{key}")
            if int(layout.fingerprint_of(key)[:2], 16) < _SHARE:
                self.compact()

    def compact(self, *, at_least: int = _ENOUGH) -> bool:
        """Pack what is known when enough has gathered, and take announcements back that are old.

        Returns:
            Whether this call made a pack.
        """
        found = self._look()
        pack = self._newest(found)
        records = self._read(found)
        if pack:
            self._forget(self._told_long_ago(found, pack.records, records))
        if len(records - (pack.records if pack else frozenset())) < at_least:
            return False
        return self._put(found, records)

    def rebuild(self) -> frozenset[str]:
        """Pack what a listing of all shows, and what it may not show yet; those records."""
        found = self._look()
        listed, pack = self.listed(), self._newest(found)
        unlisted = self._read(found) - listed
        records = listed | {key for key in unlisted if self.store.size(key) is not None}
        if pack is None or pack.records != records:
            self._put(found, records)
        return records

    def _put(self, found: _Found, records: Iterable[str]) -> bool:
        keys = sorted(records)
        number = 1 + (layout.number_of_pack(found.packs[-1].key) or 0 if found.packs else 0)
        told = {"schema": SCHEMA, "version": 1, "records": keys, "digest": digest(keys)}
        data = zlib.compress(json.dumps(told).encode())
        return bool(keys) and self.store.put_once(layout.index_pack(number), data)

    def _told_long_ago(
        self, found: _Found, known: frozenset[str], records: frozenset[str]
    ) -> list[str]:
        """Keys that nobody needs: what an old pack names, deposits that died, packs before that."""
        now = self.store.now()
        old = [each for each in found.begun if each.modified < now - _DEAD]
        dead = [each.key for each in old if _record(each) not in records]
        if found.packs[-1].modified > now - self.grace:
            return dead
        announced = [each.key for each in (*found.done, *found.begun) if _record(each) in known]
        return [*dead, *announced, *(each.key for each in found.packs[:-2])]

    def _forget(self, keys: Iterable[str]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(self.store.delete, keys):
                pass


def _record(entry: Entry) -> str:
    return entry.key.split("/", 2)[2]
