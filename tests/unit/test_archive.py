"""The archive takes whole deposits only, keeps the first, and names what is damaged."""

import json
from pathlib import Path

import pytest

from core_parts import CELL, CLOCK, KILLED, archive_in, body, key_of, killer, put, python, tree
from quantgrid import atomic, layout
from quantgrid.archive import Archive, owners
from quantgrid.archive.record import sealed
from quantgrid.errors import ArchiveRefusal, DataFault, HoldRefusal, PlatformFault
from quantgrid.fingerprint import digest_bytes
from quantgrid.store.folder import FolderStore

DATA = b"weights"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive in which nothing was deposited."""
    return archive_in(tmp_path)


@pytest.fixture
def stocked(archive: Archive, tmp_path: Path) -> Archive:
    """An archive with one record and one file."""
    put(archive, tmp_path / "out", body(files={"w": DATA}), w=DATA)
    return archive


def _blob(archive: Archive) -> Path:
    return Path(archive.store.address, layout.blob_key(digest_bytes(DATA)))


def _record(archive: Archive, key: str | None = None) -> Path:
    return Path(archive.store.address, key or key_of(body()))


def test_archive_is_empty_when_nothing_was_deposited(archive: Archive, tmp_path: Path) -> None:
    """Looking into an archive makes none, and none has no identity."""
    assert archive.index() == frozenset()
    assert archive.find_identity() is None
    assert archive.find_record(key_of(body())) is None
    with pytest.raises(ArchiveRefusal, match="the archive lacks"):
        archive.record(key_of(body()))
    assert list(tmp_path.iterdir()) == []


def test_archive_gives_back_a_deposit_when_asked(stocked: Archive, tmp_path: Path) -> None:
    """A record and its files come back verified; the index names the record."""
    key = key_of(body())

    record = stocked.record(key)

    assert record == sealed(body(files={"w": DATA}))
    assert stocked.index() == {key}
    assert stocked.files(record, tmp_path)["w"].read_bytes() == DATA


def test_archive_keeps_the_first_record_when_deposited_twice(
    stocked: Archive, tmp_path: Path
) -> None:
    """Whoever comes second with the same fingerprint gets the first record back."""
    first = stocked.record(key_of(body()))
    identity = stocked.identity()

    later = {**body(files={"w": DATA}), "deposited": "later"}
    again = put(stocked, tmp_path / "out", later, w=DATA)

    assert again.digest == first["digest"]
    assert again.archive == identity
    assert stocked.record(key_of(body())) == first


def test_archive_names_it_when_one_fingerprint_has_two_results(
    stocked: Archive, tmp_path: Path
) -> None:
    """Equal fingerprints with other numbers or other bytes are never passed over in silence."""
    first = stocked.record(key_of(body()))
    numbers = {**body(files={"w": DATA}), "results": {"loss": 9.75}}
    sha256 = first["blobs"]["w"]["sha256"]
    for other, said in ((numbers, "results.loss: 1.5 and 9.75"), (body(), sha256)):
        files = {"w": DATA} if other["blobs"] else {}

        with pytest.raises(DataFault, match="one fingerprint has two results") as caught:
            put(stocked, tmp_path / "out", other, **files)

        assert said in str(caught.value)
    assert stocked.record(key_of(body())) == first


def test_archive_takes_no_record_when_its_fence_refuses(archive: Archive, tmp_path: Path) -> None:
    """The fence is asked when files are there already and the record is not."""
    source = tmp_path / "w"
    source.write_bytes(DATA)

    def fence() -> None:
        assert list(archive.store.list("blobs"))
        raise HoldRefusal("somebody else took over")

    with pytest.raises(HoldRefusal):
        archive.deposit(
            key_of(body()), body(files={"w": DATA}), {"w": source}, clock=CLOCK, fence=fence
        )

    assert archive.index() == frozenset()


def test_archive_stores_bytes_once_when_two_records_share_them(
    stocked: Archive, tmp_path: Path
) -> None:
    """Files are named by their digest."""
    put(stocked, tmp_path / "out", body(of="b", files={"v": DATA}), v=DATA)

    assert list(stocked.store.list("blobs")) == [layout.blob_key(digest_bytes(DATA))]
    assert len(stocked.index()) == 2


def test_archive_takes_nothing_when_the_body_belongs_elsewhere(
    archive: Archive, tmp_path: Path
) -> None:
    """A record never reaches the key of another one."""
    with pytest.raises(DataFault, match="another key"):
        archive.deposit(key_of(body(of="b")), body(), {}, clock=CLOCK)
    assert tree(tmp_path) == {}


def test_archive_takes_no_record_when_a_file_changed(archive: Archive, tmp_path: Path) -> None:
    """A file whose bytes are not those of the body is a fault, and no record names it."""
    for other in (b"changed", b"longer than before"):
        with pytest.raises(DataFault, match="is damaged"):
            put(archive, tmp_path / "out", body(files={"w": DATA}), w=other)
        _blob(archive).unlink()
    assert archive.index() == frozenset()


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [b"weightz", b"weight", b"weights and more", b""])
def test_archive_names_the_blob_when_it_is_damaged(
    stocked: Archive, tmp_path: Path, bad: bytes
) -> None:
    """Bytes that changed are never handed out, nor taken as there for the next deposit."""
    _blob(stocked).write_bytes(bad)

    with pytest.raises(DataFault, match=digest_bytes(DATA)):
        stocked.file(stocked.record(key_of(body())), "w", tmp_path)
    with pytest.raises(DataFault, match=digest_bytes(DATA)):
        put(stocked, tmp_path / "out", body(of="b", files={"w": DATA}), w=DATA)
    assert stocked.index() == {key_of(body())}


def test_archive_names_the_blob_when_it_is_missing(stocked: Archive, tmp_path: Path) -> None:
    """A record without its file is a fault with the file's digest; a deposit brings it back."""
    _blob(stocked).unlink()

    with pytest.raises(DataFault, match=f"{digest_bytes(DATA)} is damaged.*seen nothing"):
        stocked.files(stocked.record(key_of(body())), tmp_path)

    put(stocked, tmp_path / "out", body(files={"w": DATA}), w=DATA)
    assert _blob(stocked).read_bytes() == DATA


def test_archive_names_the_record_when_it_is_truncated(stocked: Archive) -> None:
    """Half a record is a fault with its key, for readers and for the next deposit."""
    path = _record(stocked)
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(DataFault, match=key_of(body())):
        stocked.find_record(key_of(body()))
    with pytest.raises(DataFault, match=key_of(body())):
        stocked.deposit(key_of(body()), body(), {}, clock=CLOCK)


@pytest.mark.parametrize(
    "other", [{"of": "b"}, {"cell": "n0-t1k-s1/rtn"}, {"kind": "cells"}], ids=str
)
def test_archive_names_the_record_when_it_is_another_ones(
    stocked: Archive, other: dict[str, str]
) -> None:
    """A whole record that was copied under another key is never taken for that one."""
    key = key_of(body(**other))  # type: ignore[arg-type]
    target = _record(stocked, key)
    target.parent.mkdir(parents=True)
    target.write_bytes(_record(stocked).read_bytes())

    with pytest.raises(DataFault, match="another key"):
        stocked.find_record(key)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": null}', '{"id": 7}'])
def test_archive_refuses_when_its_identity_is_damaged(stocked: Archive, text: str) -> None:
    """A damaged identity is never replaced by a new one."""
    path = _record(stocked, layout.ARCHIVE_IDENTITY)
    path.write_text(text)

    with pytest.raises(DataFault, match="identity cannot be read"):
        stocked.find_identity()
    with pytest.raises(DataFault, match="identity cannot be read"):
        stocked.deposit(key_of(body(of="b")), body(of="b"), {}, clock=CLOCK)
    assert path.read_text() == text
    assert len(stocked.index()) == 1


def test_archive_refuses_when_its_identity_is_lost(stocked: Archive) -> None:
    """Records without an identity get no new one: every receipt would name another archive."""
    _record(stocked, layout.ARCHIVE_IDENTITY).unlink()

    with pytest.raises(DataFault, match="has no identity"):
        stocked.identity()
    with pytest.raises(DataFault, match="has no identity"):
        stocked.deposit(key_of(body(of="b")), body(of="b"), {}, clock=CLOCK)
    assert stocked.find_identity() is None


def test_archive_is_a_fault_when_a_file_is_in_its_place(tmp_path: Path) -> None:
    """A place that cannot be an archive is told before anything is planned."""
    (tmp_path / "archive").write_text("")
    archive = archive_in(tmp_path)

    for call in (archive.index, archive.find_identity, archive.identity):
        with pytest.raises(PlatformFault):
            call()


def test_index_leaves_out_what_is_no_record_when_listed(stocked: Archive) -> None:
    """Strays in the archive's folders are neither records nor the end of a plan."""
    for stray in ("cells/record.json", "cells/a/record.json", "weights/a/b/c/d/record.json"):
        stocked.store.put_once(stray, b"")
    stocked.store.put_once(f"weights/{CELL}/00/notes.txt", b"")

    assert stocked.index() == {key_of(body())}
    assert list(owners(stocked.index())) == []


def test_owners_names_cells_when_asked() -> None:
    """Owner and fingerprint of records of cells, and of no others."""
    index = frozenset({key_of(body("cells")), key_of(body())})

    assert list(owners(index)) == [(CELL, body()["fingerprint"])]


# -- SIGKILL at each publication ------------------------------------------------------------------

_DEPOSITOR = """
import sys
from pathlib import Path
from core_parts import *
data = b"weights"
put(archive_in(Path()), Path("out"), body(files={"w": data}), w=data)
"""


@pytest.mark.parametrize(
    ("at", "there"),
    [
        (1, set()),
        (2, {"archive.json"}),
        (3, {"archive.json", layout.blob_key(digest_bytes(DATA))}),
    ],
)
def test_deposit_is_whole_or_absent_when_its_process_is_killed(
    tmp_path: Path, at: int, there: set[str]
) -> None:
    """Killed before identity, blob or record: the same deposit later gives the same archive."""
    copy = tmp_path / "copy"
    copy.mkdir()
    environment = killer(tmp_path / "k")

    code, said = python(_DEPOSITOR, cwd=copy, KILL_AT=f"runner:{at}", **environment)

    archive = archive_in(copy)
    names = {name for name in tree(copy / "archive") if not atomic.is_debris(name)}
    assert code == KILLED, said
    assert names == there
    assert archive.index() == frozenset()

    code, said = python(_DEPOSITOR, cwd=copy, **environment)
    archive.store.clear_dead()

    assert code == 0, said
    assert set(tree(copy / "archive")) == {
        "archive.json",
        layout.blob_key(digest_bytes(DATA)),
        key_of(body()),
    }
    assert archive.record(key_of(body()))["blobs"]["w"]["sha256"] == digest_bytes(DATA)


def test_two_first_deposits_share_one_identity_when_they_race(tmp_path: Path) -> None:
    """Whoever creates the identity second uses the first one's."""
    one, other = archive_in(tmp_path), Archive(FolderStore(tmp_path / "archive"))
    made = [put(each, tmp_path / "out", body(of=of)) for each, of in ((one, "a"), (other, "b"))]

    assert made[0].archive == made[1].archive
    assert json.loads(_record(one, "archive.json").read_bytes())["id"] == made[0].archive
