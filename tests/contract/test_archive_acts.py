"""`quantgrid archive` and `quantgrid pull` do the same in a folder and in a bucket."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core_parts import BOUND_S, CLOCK, body, key_of, put, tree
from quantgrid import atomic, hold, layout, ledger
from quantgrid.archive import Archive, bulk, waiting
from quantgrid.archive.index import Index
from quantgrid.archive.record import parse_record
from quantgrid.archive.spent import find as find_spent
from quantgrid.archive.spent import remove as remove_spent
from quantgrid.archive.verify import verify
from quantgrid.errors import ArchiveRefusal, DataFault, PlatformFault
from quantgrid.fingerprint import digest_bytes
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.store import open_store

DATA = b"weights"
BLOB = layout.blob_key(digest_bytes(DATA))
CALL_S = 3 * BOUND_S
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["folder", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the archive is."""
    if request.param == "folder":
        return str(tmp_path / "archive")
    return str(request.getfixturevalue("s3_address"))


@pytest.fixture
def archive(address: str, tmp_path: Path) -> Archive:
    """An archive that is empty yet."""
    return Archive(open_store(address, tmp_path / "writer"))


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """What the cells of the smoke grid are made from."""
    return trace(load_grid(root, "smoke"), Science(root))


@pytest.fixture
def full(archive: Archive, lineage: Lineage, tmp_path: Path) -> Archive:
    """An archive with every cell of the smoke grid; all weights are one file."""
    for cell, stage in lineage.cells.items():
        record = {**body("cells", cell), "fingerprint": stage.fingerprint}
        put(archive, tmp_path / "out", record)
        weights = lineage.weights[cell]
        record = {**body("weights", cell, files={"w": DATA}), "fingerprint": weights.fingerprint}
        put(archive, tmp_path / "out", record, w=DATA)
    return archive


@pytest.fixture
def call(tmp_path: Path, root: Path, address: str) -> Call:
    """A command in an empty clone, with the project's configuration."""
    clone = tmp_path / "clone"
    clone.mkdir()

    def run(*words: str, command: str = "archive") -> "subprocess.CompletedProcess[str]":
        options = ["--root", str(root), "--archive", address]
        return subprocess.run(
            [sys.executable, "-m", "quantgrid", command, *words, *options],
            cwd=clone,
            capture_output=True,
            text=True,
            timeout=CALL_S,
            check=False,
        )

    return run


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
        archive.store.put_once(key_of(record), atomic.json_bytes(_sealed(record)))

    found = verify(archive, tmp_path / "cache")

    assert [(each.key, each.cells) for each in found.damages] == [(BLOB, tuple(cells))]
    assert found.damages[0].line().endswith(f"needed by {', '.join(cells)}")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def _sealed(record: dict[str, Any]) -> dict[str, Any]:
    from quantgrid.archive.record import sealed

    return sealed(record)


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
    """The file and its record lie in a folder of the cell."""
    done = call("n0-t20k-s0/none", "--grid", "smoke", command="pull")

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


# -- gc -------------------------------------------------------------------------------------------

GC_CELL = "n0-t20k-s0/none"


@pytest.fixture
def spent(lineage: Lineage, tmp_path: Path) -> Path:
    """State on the volume of the clone that led to the weights of a cell."""
    return _state(tmp_path, lineage, lineage.weights[GC_CELL].fingerprint)


def _state(tmp_path: Path, lineage: Lineage, fingerprint: str) -> Path:
    name = lineage.weights[GC_CELL].name
    folder = layout.state_folder(tmp_path / "clone" / "volume", GC_CELL, name, fingerprint)
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_bytes(b"12345")
    return folder


def _gc(call: Call, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = call("gc", "--json", *words)
    assert done.returncode == code, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_gc_deletes_only_state_behind_whole_results_when_told_yes(
    full: Archive, call: Call, lineage: Lineage, spent: Path, tmp_path: Path
) -> None:
    """It reports first; state without a record stays."""
    young = _state(tmp_path, lineage, "f" * 64)

    told = _gc(call)
    assert [(Path(each["place"]), each["size_bytes"]) for each in told] == [(spent, 5)]
    assert spent.exists()

    _gc(call, "--yes")
    assert (spent.exists(), young.exists()) == (False, True)
    assert _gc(call) == []


def test_gc_deletes_state_in_the_store_when_its_result_is_whole(
    full: Archive, call: Call, lineage: Lineage
) -> None:
    """The store's own area of state is looked at like a volume; other keys are left alone."""
    stage = lineage.weights[GC_CELL]
    folders = [
        layout.state_folder(Path(), GC_CELL, stage.name, fingerprint).as_posix()
        for fingerprint in (stage.fingerprint, "f" * 64)
    ]
    for folder in folders:
        for name in ("1", "2"):
            full.store.put_once(f"{folder}/{name}", b"123")
    records = full.index()

    told = _gc(call)
    assert [(each["place"], each["size_bytes"]) for each in told] == [
        (f"{full.store.address}/{folders[0]}", 6)
    ]
    assert len(list(full.store.list(layout.STATE))) == 4

    _gc(call, "--yes")
    assert sorted(full.store.list(layout.STATE)) == [f"{folders[1]}/1", f"{folders[1]}/2"]
    assert full.index() == records


def test_gc_keeps_state_when_somebody_holds_its_fingerprint(
    full: Archive, call: Call, lineage: Lineage, spent: Path, tmp_path: Path
) -> None:
    """The holder is named; once it let go, the state may go."""
    fingerprint = lineage.weights[GC_CELL].fingerprint
    terms = hold.Terms(GC_CELL, hold.new_holder("/elsewhere", "copy", "attempt"), 3600.0)
    held = hold.Chain(full.store, fingerprint).take(terms)
    assert isinstance(held, hold.Hold)

    assert "in /elsewhere" in _gc(call, "--yes")[0]["held"]
    assert spent.exists()

    held.release(is_done=False)
    assert _gc(call, "--yes")[0]["held"] == ""
    assert not spent.exists()


def test_gc_keeps_state_when_it_is_taken_between_report_and_deletion(
    full: Archive, lineage: Lineage, spent: Path, tmp_path: Path
) -> None:
    """Holds are asked for once more before anything is removed."""
    found = find_spent(full, tmp_path / "clone" / "volume", tmp_path / "scratch")
    assert [each.kept for each in found] == [""]
    terms = hold.Terms(GC_CELL, hold.new_holder("/elsewhere", "copy", "attempt"), 3600.0)
    hold.Chain(full.store, lineage.weights[GC_CELL].fingerprint).take(terms)

    assert list(remove_spent(full, found)) == []

    assert spent.exists()


@pytest.mark.parametrize("damage", ["wrong", "missing"])
def test_gc_keeps_state_when_a_file_of_its_result_is_damaged(
    archive: Archive, call: Call, lineage: Lineage, spent: Path, tmp_path: Path, damage: str
) -> None:
    """The result may have to be made again from it; a whole copy in the cache vouches not."""
    stage = lineage.weights[GC_CELL]
    record = {**body("weights", GC_CELL, files={"w": DATA}), "fingerprint": stage.fingerprint}
    put(archive, tmp_path / "out", body("cells", GC_CELL))
    if damage == "wrong":
        archive.store.put_once(BLOB, b"wrong!!")
    archive.store.put_once(key_of(record), atomic.json_bytes(_sealed(record)))
    Index(archive.store).rebuild()
    cached = tmp_path / "clone" / layout.BLOB_CACHE / BLOB
    cached.parent.mkdir(parents=True)
    cached.write_bytes(DATA)

    told = _gc(call, "--yes", code=65)

    assert [BLOB in each["damage"] for each in told] == [True]
    assert spent.exists()
    assert cached.read_bytes() == DATA


def test_verify_leaves_the_cache_of_jobs_alone_when_it_reads(
    full: Archive, call: Call, tmp_path: Path
) -> None:
    """A job that runs meanwhile reads its parents from there."""
    cached = tmp_path / "clone" / layout.BLOB_CACHE / BLOB
    cached.parent.mkdir(parents=True)
    cached.write_bytes(DATA)

    assert call("verify").returncode == 0
    assert call("copy", str(tmp_path / "target")).returncode == 0

    assert cached.read_bytes() == DATA
    assert list((tmp_path / "clone" / layout.ATTEMPTS).iterdir()) == []


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

    assert done.stdout == "deposited 1 results\n", done.stderr
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
