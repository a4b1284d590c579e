"""The index shows every finished record in a few requests, whatever died or raced before."""

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core_parts import CLOCK, body, key_of, put
from quantgrid import layout
from quantgrid.archive import Archive
from quantgrid.archive.index import Index
from quantgrid.errors import PlatformFault
from quantgrid.store.folder import FolderStore
from quantgrid.store.s3 import S3Store
from s3_proxy import Proxy, Request, proxy
from s3_server import HASTY, Server

NOW = timedelta(0)


class _Far(FolderStore):
    """A folder that counts as remote, so that its archive keeps an index."""

    __slots__ = ()

    @property
    def is_remote(self) -> bool:
        return True


class _Mortal(_Far):
    """The same folder for a process that dies instead of its next write but some."""

    __slots__ = ("left",)

    def __init__(self, root: Path, left: int) -> None:
        super().__init__(root)
        self.left = left

    def _live(self) -> None:
        if not self.left:
            raise SystemExit(137)
        self.left -= 1

    def put_once(self, key: str, data: bytes) -> bool:
        self._live()
        return super().put_once(key, data)

    def delete(self, key: str) -> None:
        self._live()
        super().delete(key)


@pytest.fixture
def store(tmp_path: Path) -> _Far:
    """An empty store with an index."""
    return _Far(tmp_path / "store")


@pytest.fixture
def archive(store: _Far) -> Archive:
    """An archive in it."""
    return Archive(store)


def _fill(archive: Archive, folder: Path, names: str) -> frozenset[str]:
    return frozenset(put(archive, folder, body("cells", of=name)).record for name in names)


def test_index_shows_records_when_they_were_announced(archive: Archive, tmp_path: Path) -> None:
    """Before the first pack, after it, and for what came since."""
    index = Index(archive.store)
    first = _fill(archive, tmp_path, "abc")
    assert index.read() == first

    assert index.compact(at_least=1)
    assert index.read() == first

    assert index.read() | _fill(archive, tmp_path, "de") == index.read()
    assert len(index.read()) == 5


def test_index_takes_announcements_back_when_a_pack_names_them_for_a_while(
    archive: Archive, tmp_path: Path
) -> None:
    """Within the grace nothing goes; after it only what the newest pack names."""
    records = _fill(archive, tmp_path, "abc")
    Index(archive.store).compact(at_least=1)
    more = _fill(archive, tmp_path, "d")

    Index(archive.store).compact(at_least=9)
    assert len(list(archive.store.list(layout.INDEX_DONE))) == 4
    Index(archive.store, NOW).compact(at_least=9)
    assert len(list(archive.store.list(layout.INDEX_DONE))) == 1

    assert Index(archive.store).read() == records | more


def test_index_is_not_packed_when_little_has_gathered(archive: Archive, tmp_path: Path) -> None:
    """Three records are not worth an object."""
    _fill(archive, tmp_path, "abc")

    assert not Index(archive.store).compact()
    assert list(archive.store.list(layout.INDEX_PACKS)) == []


@pytest.mark.parametrize("at", ["begun", "record", "done", "deleted"])
def test_index_shows_the_truth_when_a_deposit_dies_between_two_steps(
    archive: Archive, tmp_path: Path, at: str
) -> None:
    """Killed after any step: what the archive holds is shown, and nothing else."""
    index = Index(archive.store)
    records = _fill(archive, tmp_path, "ab")
    index.compact(at_least=1)
    key = key_of(body("cells", of="c"))
    index.begin(key)
    if at != "begun":
        archive.store.put_once(key, b"{}")
    if at in {"done", "deleted"}:
        archive.store.put_once(f"{layout.INDEX_DONE}/{key}", b"")
    if at == "deleted":
        archive.store.delete(f"{layout.INDEX_BEGUN}/{key}")
    expected = records if at == "begun" else records | {key}

    assert index.read() == expected
    Index(archive.store, NOW).compact(at_least=1)
    Index(archive.store, NOW).compact(at_least=1)
    assert index.read() == expected


@pytest.mark.parametrize("writes", range(4))
def test_index_shows_a_record_when_its_deposit_died_at_a_write(
    store: _Far, tmp_path: Path, writes: int
) -> None:
    """Announcement, record, announcement, taking back: a record that was put is shown."""
    records = _fill(Archive(store), tmp_path, "ab")
    Index(store).compact(at_least=1)
    key = key_of(body("cells", of="c"))

    with pytest.raises(SystemExit):
        put(Archive(_Mortal(store.root, writes)), tmp_path, body("cells", of="c"))

    assert (store.find(key) is not None) == (writes > 1)
    assert Index(store).read() == (records | {key} if writes > 1 else records)


def _torn(data: bytes) -> bytes:
    return data[:-9]


def _shorter(data: bytes) -> bytes:
    """A pack that can be read and lacks a record."""
    told = json.loads(zlib.decompress(data))
    return zlib.compress(json.dumps({**told, "records": told["records"][1:]}).encode())


@pytest.mark.parametrize(("damage", "seen"), [(_torn, "cannot be read"), (_shorter, "is damaged")])
def test_index_lists_all_when_its_newest_pack_is_damaged(
    store: _Far, archive: Archive, tmp_path: Path, damage: Callable[[bytes], bytes], seen: str
) -> None:
    """A pack that is not whole is named, costs a listing, and the next pack mends it."""
    records = _fill(archive, tmp_path, "abc")
    index = Index(store, NOW)
    index.compact(at_least=1)
    index.compact(at_least=1)  # nothing is announced any more
    path = store.root / layout.index_pack(1)
    path.write_bytes(damage(path.read_bytes()))

    assert index.read() == records
    assert seen in str(index.damage())
    assert index.compact(at_least=1)
    assert index.damage() is None
    assert index.read() == records


def test_index_is_rebuilt_when_it_lost_a_record(
    store: _Far, archive: Archive, tmp_path: Path
) -> None:
    """A record that no announcement and no pack names is found by a listing of all."""
    _fill(archive, tmp_path, "ab")
    index = Index(store)
    index.compact(at_least=1)
    lost = key_of(body("cells", of="c"))
    store.put_once(lost, b"{}")
    assert lost not in index.read()

    assert lost in index.rebuild()

    assert lost in index.read()


def test_index_loses_nothing_when_packers_race(archive: Archive, tmp_path: Path) -> None:
    """Four threads deposit and pack at once, without any grace."""
    names = ["abcdefg", "hijklmn", "opqrstu", "vwxyz12"]
    errors: list[BaseException] = []

    def work(mine: str) -> None:
        try:
            for name in mine:
                _fill(archive, tmp_path / mine, name)
                Index(archive.store).compact(at_least=1)
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)

    assert errors == []
    assert Index(archive.store).read() == Index(archive.store).listed()
    assert len(Index(archive.store).listed()) == 28


# -- on a real server -----------------------------------------------------------------------------


@pytest.fixture
def between(seaweed: Server) -> Iterator[Proxy]:
    """A proxy that counts requests."""
    with proxy(seaweed.port) as made:
        yield made


@pytest.fixture
def bucket(between: Proxy, s3_address: str, tmp_path: Path) -> Archive:
    """An archive in a bucket, behind the proxy."""
    place = s3_address.partition("?")[0]
    return Archive(S3Store(f"{place}?endpoint_url={between.endpoint}", tmp_path / "s", HASTY))


def test_index_costs_three_requests_when_a_thousand_cells_are_packed(
    bucket: Archive, between: Proxy, tmp_path: Path
) -> None:
    """Identity, listing and pack: no request more, however many cells there are."""
    _fill(bucket, tmp_path, "a")
    many = [key_of(body("cells", of=str(number))) for number in range(1_000)]
    index = Index(bucket.store)
    index._put(index._look(), many)
    before = len(between.seen)

    assert len(bucket.index()) == 1_001
    assert bucket.find_identity()
    assert len(between.seen) - before == 3


@pytest.mark.parametrize("fault", ["reset", "503"])
def test_archive_is_a_fault_and_never_empty_when_its_store_is_silent(
    bucket: Archive, between: Proxy, tmp_path: Path, fault: str
) -> None:
    """No request of the index may be taken for an empty answer."""
    _fill(bucket, tmp_path, "abc")
    Index(bucket.store).compact(at_least=1)
    for step in range(2):
        first = len(between.seen)

        def plan(request: Request, first: int = first, step: int = step) -> str:
            return fault if request.number >= first + step else ""

        between.plan = plan
        with pytest.raises(PlatformFault):
            bucket.index()


def test_index_shows_packed_records_when_a_listing_is_stale(
    bucket: Archive, between: Proxy, tmp_path: Path
) -> None:
    """A listing from before the last two packs still leads to every record it knew."""
    records = _fill(bucket, tmp_path, "ab")
    index = Index(bucket.store, NOW)
    index.compact(at_least=1)
    between.listings.clear()
    assert index.read() == records  # the proxy keeps this listing
    later = records | _fill(bucket, tmp_path, "cd")
    for _ in range(4):
        index.compact(at_least=1)
    assert index.read() == later

    between.plan = lambda request: "stale" if request.is_listing else ""

    assert index.read() >= records


@pytest.mark.parametrize("every", [1, pytest.param(4, marks=pytest.mark.nightly)])
def test_deposit_is_whole_when_every_answer_may_be_lost(
    bucket: Archive, between: Proxy, tmp_path: Path, every: int
) -> None:
    """Each request of a deposit loses its answer, is reset or gets a 503: it goes on.

    Always one fault a request, in turn; `make nightly` plays all four at each.
    """
    faults = ("reset", "lost", "503", "half")
    data = b"weights"
    first = len(between.seen)
    put(bucket, tmp_path, body(of="0", files={"w": data}), w=data)
    length = len(between.seen) - first
    for number in range(length):
        for fault in (*faults, *faults)[number % 4 :][:every]:
            start = len(between.seen)

            def plan(r: Request, at: int = start + number, fault: str = fault) -> str:
                return fault if r.number == at else ""

            between.plan = plan
            record = body(of=f"{number}{fault}", files={"w": data})
            put(bucket, tmp_path, record, w=data)
            assert key_of(record) in bucket.index()
    assert CLOCK.now()
