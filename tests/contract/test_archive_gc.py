"""`quantgrid archive gc` deletes state that nobody needs, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from acts import BLOB, DATA, Call, sealed_bytes
from core_parts import body, key_of, put
from quantgrid import hold, layout
from quantgrid.archive import Archive
from quantgrid.archive.index import Index
from quantgrid.archive.spent import find, remove
from quantgrid.lineage import Lineage

CELL = "n0-t20k-s0/none"


@pytest.fixture
def spent(lineage: Lineage, tmp_path: Path) -> Path:
    """State on the volume of the clone that led to the weights of a cell."""
    return _state(tmp_path, lineage, lineage.weights[CELL].fingerprint)


def _state(tmp_path: Path, lineage: Lineage, fingerprint: str) -> Path:
    name = lineage.weights[CELL].name
    folder = layout.state_folder(tmp_path / "clone" / "volume", CELL, name, fingerprint)
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
    stage = lineage.weights[CELL]
    folders = [
        layout.state_folder(Path(), CELL, stage.name, fingerprint).as_posix()
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
    fingerprint = lineage.weights[CELL].fingerprint
    terms = hold.Terms(CELL, hold.new_holder("/elsewhere", "copy", "attempt"), 3600.0)
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
    found = find(full, tmp_path / "clone" / "volume", tmp_path / "scratch")
    assert [each.kept for each in found] == [""]
    terms = hold.Terms(CELL, hold.new_holder("/elsewhere", "copy", "attempt"), 3600.0)
    hold.Chain(full.store, lineage.weights[CELL].fingerprint).take(terms)

    assert list(remove(full, found)) == []

    assert spent.exists()


@pytest.mark.parametrize("damage", ["wrong", "missing"])
def test_gc_keeps_state_when_a_file_of_its_result_is_damaged(
    archive: Archive, call: Call, lineage: Lineage, spent: Path, tmp_path: Path, damage: str
) -> None:
    """The result may have to be made again from it; a whole copy in the cache vouches not."""
    stage = lineage.weights[CELL]
    record = {**body("weights", CELL, files={"w": DATA}), "fingerprint": stage.fingerprint}
    put(archive, tmp_path / "out", body("cells", CELL))
    if damage == "wrong":
        archive.store.put_once(BLOB, b"wrong!!")
    archive.store.put_once(key_of(record), sealed_bytes(record))
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
