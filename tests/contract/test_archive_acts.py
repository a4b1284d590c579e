"""`quantgrid archive` and `quantgrid pull` do the same in a folder and in a bucket."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acts import BLOB, DATA, Call, calling, sealed_bytes
from core_parts import CLOCK, body, key_of, put, tree
from quantgrid import atomic, layout, ledger
from quantgrid.archive import Archive, bulk, waiting
from quantgrid.archive.index import Index
from quantgrid.archive.record import parse_record
from quantgrid.archive.verify import verify
from quantgrid.errors import ArchiveRefusal, DataFault, PlatformFault, Waiting
from quantgrid.lineage import Lineage
from quantgrid.store import open_store
from small_disk import SmallDisk


def test_fold_brings_everything_back_when_the_clone_is_empty(
    full: Archive, call: Call, lineage: Lineage, tmp_path: Path
) -> None:
    """Results and ledger of the whole grid in one call; a second one finds nothing to do."""
    done = call("fold", "--grid", "smoke", "--json")
    assert json.loads(done.stdout) == {
        "folded": 14, "here": 0, "damaged": [], "not_archived": 0
    }, done.stderr  # fmt: skip
    clone = tmp_path / "clone"
    for cell, stage in lineage.cells.items():
        path = clone / layout.RESULT.format(base=cell.split("/")[0], variant=cell.split("/")[1])
        assert parse_record(path.read_bytes(), where="", key=stage.record)
    assert {key[0] for key in ledger.read(clone / layout.LEDGER)} == set(lineage.cells)

    before = tree(clone)
    assert json.loads(call("fold", "--grid", "smoke", "--json").stdout)["here"] == 14
    assert tree(clone) == before


def test_fold_names_what_is_damaged_and_brings_the_rest_when_a_record_is_torn(
    archive: Archive, call: Call, lineage: Lineage, tmp_path: Path
) -> None:
    """One torn record costs one result, exit code 65, and its name is told."""
    cells = sorted(lineage.cells)
    for cell in cells[1:]:
        record = {**body("cells", cell), "fingerprint": lineage.cells[cell].fingerprint}
        put(archive, tmp_path / "out", record)
    torn = lineage.cells[cells[0]].record
    archive.store.put_once(torn, b"{")
    Index(archive.store).rebuild()

    done = call("fold", "--grid", "smoke")

    assert done.returncode == 65
    assert torn in done.stdout
    assert "folded 13 results" in done.stdout


def test_verify_tells_a_shared_blob_once_when_it_is_damaged(
    archive: Archive, tmp_path: Path
) -> None:
    """Three cells share a file that is wrong: one damage with the three names."""
    cells = ["n0-t1k-s0/a", "n0-t1k-s0/b", "n0-t1k-s1/a"]
    archive.store.put_once(BLOB, b"wrong bytes")
    for cell in cells:
        record = body("weights", cell, files={"w": DATA})
        with pytest.raises(DataFault):
            put(archive, tmp_path / "out", record, w=DATA)
        archive.store.put_once(key_of(record), sealed_bytes(record))

    found = verify(archive, tmp_path / "cache")

    assert [(each.key, each.cells) for each in found.damages] == [(BLOB, tuple(cells))]
    assert found.damages[0].line().endswith(f"needed by {', '.join(cells)}")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_copy_is_the_same_archive_when_done(full: Archive, call: Call, tmp_path: Path) -> None:
    """Records, files and identity; a copy that was cut goes on; another archive is refused."""
    target = Archive(open_store(str(tmp_path / "copy"), tmp_path))
    steps: Iterator[str] = bulk.copy(full, target, tmp_path / "scratch")
    for _ in range(5):
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(Index(target.store).listed()) == 5

    done = call("copy", str(tmp_path / "copy"), "--json")

    assert json.loads(done.stdout)["copied"] == 23, done.stderr
    assert target.identity() == full.identity()
    assert target.index() == full.index()
    assert verify(target, tmp_path / "cache").damages == ()
    other = Archive(open_store(str(tmp_path / "other"), tmp_path))
    put(other, tmp_path / "out", body())
    with pytest.raises(ArchiveRefusal, match="holds another archive"):
        next(bulk.copy(full, other, tmp_path / "scratch"))


def test_list_and_status_agree_when_asked(full: Archive, call: Call) -> None:
    """As many cells as the grid has."""
    keys = json.loads(call("list", "--kind", "cells", "--json").stdout)
    status = json.loads(call("status", "--json").stdout)

    assert len(keys) == status["records"]["cells"] == 14
    assert status["identity"] == full.identity()
    assert status["unfolded"] == keys


def test_pull_fetches_verified_files_when_asked(full: Archive, call: Call, tmp_path: Path) -> None:
    """The file and its record lie in a folder of the cell, whose grid needs no word."""
    done = call("n0-t20k-s0/none", command="pull")

    folder = tmp_path / "clone" / "pulled" / "n0-t20k-s0" / "none"
    assert done.returncode == 0, done.stderr
    assert (folder / "w").read_bytes() == DATA
    assert json.loads((folder / "record.json").read_bytes())["cell"] == "n0-t20k-s0/none"


def test_pull_fetches_again_when_the_copy_here_is_damaged(
    full: Archive, call: Call, tmp_path: Path, address: str
) -> None:
    """A damaged copy in the cache is no damage of the archive."""
    if not full.store.is_remote:
        pytest.skip("a folder has no copies")
    cached = tmp_path / "clone" / layout.BLOB_CACHE / BLOB
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"rubbish")

    done = call("n0-t20k-s0/none", "--grid", "smoke", command="pull")

    assert done.returncode == 0, done.stderr
    assert cached.read_bytes() == DATA


# -- results that wait ----------------------------------------------------------------------------


def test_waiting_result_is_deposited_when_the_archive_can_be_written_again(
    archive: Archive, call: Call, tmp_path: Path
) -> None:
    """It lies whole on the volume, is told by status, and is gone from there once deposited."""
    clone = tmp_path / "clone"
    source = clone / "w"
    source.write_bytes(DATA)
    record = body(files={"w": DATA})
    key = key_of(record)
    folder = waiting.keep(clone, key, record, {"w": source})
    assert json.loads(call("status", "--json").stdout)["waiting"] == [key]

    done = call("deposit")

    assert done.stdout == "deposited 1 result\n", done.stderr
    assert key in archive.index()
    assert archive.file(archive.record(key), "w", tmp_path / "cache").read_bytes() == DATA
    assert not folder.exists()


def test_waiting_result_goes_on_waiting_when_the_archive_still_cannot_be_written(
    tmp_path: Path,
) -> None:
    """A second failure loses nothing either."""
    (tmp_path / "file").write_text("")
    source = tmp_path / "w"
    source.write_bytes(DATA)
    record = body(files={"w": DATA})
    waiting.keep(tmp_path, key_of(record), record, {"w": source})

    blocked = Archive(open_store("file", tmp_path))
    with pytest.raises(PlatformFault):
        list(waiting.deposit_all(tmp_path, blocked, CLOCK))

    assert list(waiting.keys(tmp_path)) == [key_of(record)]
    open_ = Archive(open_store("archive", tmp_path))
    assert list(waiting.deposit_all(tmp_path, open_, CLOCK)) == [key_of(record)]


def test_waiting_result_is_refused_when_its_file_changed(tmp_path: Path) -> None:
    """What waited is verified like any other deposit."""
    source = tmp_path / "w"
    source.write_bytes(DATA)
    record = body(files={"w": DATA})
    folder = waiting.keep(tmp_path, key_of(record), record, {"w": source})
    (folder / "files" / "w").write_bytes(b"weightz")

    with pytest.raises(DataFault):
        list(waiting.deposit_all(tmp_path, Archive(open_store("archive", tmp_path)), CLOCK))

    assert folder.exists()


# -- several archives, and twins ------------------------------------------------------------------


def test_archive_restores_from_the_others_when_it_lacks_a_record(
    archive: Archive, tmp_path: Path
) -> None:
    """Records and files of all are seen; deposits go to the first one only."""
    mine = Archive(open_store("mine", tmp_path), [archive.store])
    there = body(files={"w": DATA})
    put(archive, tmp_path / "out", there, w=DATA)
    put(mine, tmp_path / "out", body(of="b"))

    assert mine.index() == {key_of(there), key_of(body(of="b"))}
    record = mine.record(key_of(there))
    assert mine.file(record, "w", tmp_path / "cache").read_bytes() == DATA
    assert key_of(body(of="b")) not in archive.index()
    assert mine.identity() != archive.identity()
    assert mine.other_identities() == {archive.identity()}


def test_archive_is_refused_when_another_one_is_pinned(archive: Archive, tmp_path: Path) -> None:
    """Twin places of one name: each is refused where the other is meant, and so is an empty one."""
    put(archive, tmp_path / "out", body())
    twin = Archive(open_store("twin", tmp_path))
    put(twin, tmp_path / "out", body(of="b"))

    for store, pin in ((archive.store, twin.identity()), (twin.store, archive.identity())):
        pinned = Archive(store, (), pin)
        for act in (pinned.find_identity, lambda p=pinned: put(p, tmp_path / "out", body(of="c"))):
            with pytest.raises(ArchiveRefusal, match="Nothing is lost") as caught:
                act()
            assert pin in str(caught.value)
    empty = Archive(open_store("empty", tmp_path), (), twin.identity())
    with pytest.raises(ArchiveRefusal, match="a place without an archive"):
        put(empty, tmp_path / "out", body(of="c"))
    assert not (tmp_path / "empty").exists()


# -- disks that are full --------------------------------------------------------------------------


def test_fetch_names_the_folder_when_the_disk_is_full(
    full: Archive, lineage: Lineage, small_disk: SmallDisk, tmp_path: Path
) -> None:
    """Half of a file is not left there, and with room the same call goes on."""
    if not full.store.is_remote:
        pytest.skip("a folder has no copies")
    data, source = bytes(200_000), tmp_path / "large"
    source.write_bytes(data)
    full.store.put_file_once("blobs/large", source)
    folder = small_disk.root / "blobs"

    with pytest.raises(PlatformFault, match=re.escape(f"left on device ({folder})")):
        full.store.fetch("blobs/large", small_disk.root)
    assert tree(small_disk.root) == {}

    small_disk.resize(1024)
    assert full.store.fetch("blobs/large", small_disk.root).read_bytes() == data


def test_fold_leaves_whole_results_when_the_disk_is_full(
    full: Archive, root: Path, address: str, lineage: Lineage, small_disk: SmallDisk
) -> None:
    """Each result that is there is whole and in the ledger; with room the fold goes on."""
    call = calling(root, address, small_disk.root)
    small_disk.resize(88)

    done = call("fold", "--grid", "smoke")

    assert done.returncode == 71, done.stderr
    assert f"No space left on device ({small_disk.root}/results/" in done.stderr
    told = {cell for cell, _ in ledger.read(small_disk.root / layout.LEDGER)}
    there = list(small_disk.root.glob(layout.RESULT_FILES))
    assert 0 < len(there) < len(lineage.cells)
    for path in there:
        assert parse_record(path.read_bytes(), where=str(path))["cell"] in told
    assert not [path for path in small_disk.root.rglob("*") if atomic.is_debris(path.name)]

    small_disk.resize(1024)
    said = json.loads(call("fold", "--grid", "smoke", "--json").stdout)
    assert (said["folded"], said["here"]) == (len(lineage.cells) - len(there), len(there))


def test_deposit_waits_when_the_disk_is_full_while_it_is_read_back(
    archive: Archive, small_disk: SmallDisk
) -> None:
    """What was put into a bucket and cannot be read back lies on the volume, and is not lost."""
    if not archive.store.is_remote:
        pytest.skip("a folder is read where it lies")
    data, root = bytes(40_000), small_disk.root
    source = root / "w"
    source.write_bytes(data)
    record = body(files={"w": data})

    with pytest.raises(Waiting, match="cannot keep a copy"):
        waiting.deposit_or_keep(root, archive, key_of(record), record, {"w": source}, clock=CLOCK)
    assert archive.find_record(key_of(record)) is None

    small_disk.resize(1024)
    assert list(waiting.deposit_all(root, archive, CLOCK)) == [key_of(record)]
    assert archive.find_record(key_of(record))
