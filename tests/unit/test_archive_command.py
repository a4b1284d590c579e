"""`quantgrid archive` tells what is where, names what is damaged, and forgets only when asked."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core_parts import BOUND_S, CELL, CLOCK, archive_in, body, key_of, put, tree
from quantgrid import atomic, judging, layout, receipts
from quantgrid.archive import Deposit
from quantgrid.archive.survey import survey
from quantgrid.archive.verify import verify
from quantgrid.fingerprint import digest_bytes
from quantgrid.grid import Grid
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid

DATA = b"weights"
BLOB = layout.blob_key(digest_bytes(DATA))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A working copy whose archive holds weights with a file, and their cell."""
    root = tmp_path / "copy"
    put(archive_in(root), tmp_path / "out", body(files={"w": DATA}), w=DATA)
    put(archive_in(root), tmp_path / "out", body("cells"))
    return root


@pytest.fixture
def call(copy: Path, root: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`quantgrid archive` in the working copy, with the project's configuration."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "quantgrid", "archive", *arguments, "--root", str(root)]
        return subprocess.run(
            command, cwd=copy, capture_output=True, text=True, timeout=BOUND_S, check=False
        )

    return run


Call = Callable[..., "subprocess.CompletedProcess[str]"]


def _receipt(copy: Path, of: str, *, archive: str | None = None) -> str:
    record = body("cells", of=of)
    path = layout.CELL_RECEIPT.format(base="b", variant="v", fp=record["fingerprint"])
    identity = archive or archive_in(copy).identity()
    receipts.publish(copy / path, Deposit(key_of(record), "d", identity))
    return path


def _fold(copy: Path, cell: str, of: str) -> None:
    path = copy / layout.RESULT.format(base=cell.split("/")[0], variant=cell.split("/")[1])
    atomic.publish_json(path, {"cell": cell, "fingerprint": body(of=of)["fingerprint"]})


# -- status ---------------------------------------------------------------------------------------


def test_status_compares_archive_and_working_copy_when_asked(copy: Path, call: Call) -> None:
    """Identity, place, counts, and each kind of difference with its names."""
    archive = archive_in(copy)
    put(archive, copy / "out", body("cells", "n0-t1k-s0/none"))
    put(archive, copy / "out", body("cells", of="old"))
    _fold(copy, CELL, "a")
    _fold(copy, "n0-t1k-s9/none", "gone")
    astray = _receipt(copy, "lost")
    _receipt(copy, "a")

    said = json.loads(call("status", "--json").stdout)

    gone = key_of(body("cells", "n0-t1k-s9/none", of="gone"))
    assert said == {
        "address": str(copy / "archive"),
        "identity": archive.identity(),
        "records": {"trunks": 0, "weights": 1, "cells": 3},
        "astray": [astray],
        "unfolded": [key_of(body("cells", "n0-t1k-s0/none"))],
        "superseded": [key_of(body("cells", of="old"))],
        "unarchived": [gone],
        "waiting": [],
    }
    text = call("status").stdout
    assert archive.identity() in text
    assert f"folded here, not archived: 1\n  {gone}\n" in text


def test_status_names_the_grid_that_brings_a_result_back(
    copy: Path, call: Call, lineage: Lineage
) -> None:
    """`archive fold` alone folds the configured grid, which does not have it."""
    cell = "n0-t20k-s0/none"
    record = {**body("cells", cell), "fingerprint": lineage.cells[cell].fingerprint}
    put(archive_in(copy), copy / "out", record)

    said = call("status").stdout

    assert "`quantgrid archive fold --grid smoke` brings 1 result back\n" in said
    assert said.count("quantgrid archive fold") == 1


def test_status_is_no_error_when_nothing_was_deposited(copy: Path, call: Call) -> None:
    """An empty place is told as one, and stays as it is."""
    done = call("status", "--archive", "elsewhere")

    assert done.returncode == 0
    assert "nothing was deposited yet" in done.stdout
    assert not (copy / "elsewhere").exists()


def test_survey_cuts_long_lists_when_a_person_reads() -> None:
    """Five names and how many more; JSON has all."""
    index = frozenset(key_of(body("cells", of=str(number))) for number in range(9))

    found = survey(index, address="a", identity="i", astray=[], folded={})

    assert "archived, not folded here: 9\n" in found.text()
    assert "  ... and 4 more" in found.text()
    assert len(found.to_json()["unfolded"]) == 9


# -- show -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """What the cells of the smoke grid are made from."""
    grid: Grid = load_grid(root, "smoke")
    return trace(grid, Science(root))


def test_show_tells_current_and_newest_when_there_are_several(
    copy: Path, call: Call, lineage: Lineage
) -> None:
    """The record that the grid means and the one deposited last are told apart."""
    cell = "n0-t20k-s0/none"
    current = lineage.cells[cell].fingerprint
    records = [
        {**body("cells", cell), "fingerprint": current},
        {**body("cells", cell, of="later"), "deposited": "2026-12-01T00:00:00Z"},
        body("weights", cell),
    ]
    for record in records:
        put(archive_in(copy), copy / "out", record)

    done = call("show", cell, "--grid", "smoke", "--json")
    rows: list[dict[str, Any]] = json.loads(done.stdout)

    said = [(row["kind"], row["fingerprint"], row["is_current"], row["is_newest"]) for row in rows]
    assert said == [
        ("cells", current, True, False),
        ("cells", records[1]["fingerprint"], False, True),
        ("weights", records[2]["fingerprint"], False, True),
    ]
    text = call("show", cell, "--grid", "smoke").stdout
    assert (
        f"cells {current[:16]} 2026-11-30T12:00:00Z evaluate unjudged loss 1.5000 current" in text
    )


def test_show_tells_the_verdict_that_counts_when_a_base_was_rejected(
    copy: Path, call: Call, lineage: Lineage
) -> None:
    """It lies beside the record; a form is never better than its base, and weights have none."""
    base = "n0-t20k-s0/none"
    form = next(cell for cell in lineage.cells if cell.startswith("n0-t20k-s0/rtn"))
    for cell in (base, form):
        record = {**body("cells", cell), "fingerprint": lineage.cells[cell].fingerprint}
        put(archive_in(copy), copy / "out", record)
    put(archive_in(copy), copy / "out", body("weights", form))
    record = archive_in(copy).record(lineage.cells[base].record)
    judging.rejected(archive_in(copy), record, CLOCK, by="ann", reason="half there")

    for cell in (base, form):
        assert " evaluate INVALID loss 1.5000 " in call("show", cell, "--grid", "smoke").stdout
    assert "quantise loss 1.5000" in call("show", form, "--grid", "smoke").stdout


def test_show_names_the_damage_when_a_record_is_torn(copy: Path, call: Call) -> None:
    """A torn record does not hide the others."""
    (copy / "archive" / key_of(body("cells"))).write_text("{")

    done = call("show", CELL)

    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert "a record cannot be read" in done.stdout


def test_show_refuses_when_the_archive_has_none(call: Call) -> None:
    """A cell without a record is refused with the closest one that has."""
    done = call("show", "n0-t1k-s0/rtm")

    assert (done.returncode, done.stdout) == (78, "")
    assert f"did you mean {CELL!r}?" in done.stderr


# -- verify ---------------------------------------------------------------------------------------


def test_verify_finds_nothing_when_the_archive_is_whole(copy: Path, call: Call) -> None:
    """Everything was read, nothing was changed."""
    before = tree(copy)

    done = call("verify")

    assert (done.returncode, done.stdout) == (0, "read 2 records and 1 blob: 0 damaged\n")
    assert tree(copy) == before | {layout.ATTEMPTS_LOCK: b""}


DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "blob flipped": (BLOB, lambda path: path.write_bytes(b"weightz")),
    "blob cut": (BLOB, lambda path: path.write_bytes(b"weigh")),
    "blob gone": (BLOB, Path.unlink),
    "blob misnamed": ("blobs/stray", lambda path: path.write_bytes(b"?")),
    "record cut": (key_of(body()), lambda path: path.write_bytes(path.read_bytes()[:99])),
    "record changed": (
        key_of(body()),
        lambda path: path.write_bytes(path.read_bytes().replace(b"1.5", b"1.4")),
    ),
    "record empty": (key_of(body("cells")), lambda path: path.write_bytes(b"")),
    "stray": ("cells/notes.txt", lambda path: path.write_bytes(b"")),
    "identity torn": ("archive.json", lambda path: path.write_bytes(b"{")),
    "identity gone": ("archive.json", Path.unlink),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_names_the_key_when_something_is_damaged(
    copy: Path, tmp_path: Path, damage: str
) -> None:
    """Each kind of damage is one line with its key, and nothing else is named."""
    key, break_it = DAMAGES[damage]
    break_it(copy / "archive" / key)

    found = verify(archive_in(copy), tmp_path)

    assert [each.key for each in found.damages] == [key]


def test_verify_ends_with_65_when_something_is_damaged(copy: Path, call: Call) -> None:
    """All damages are named before it ends; JSON has them by key."""
    (copy / "archive" / BLOB).write_bytes(b"weightz")
    (copy / "archive" / key_of(body("cells"))).write_text("{")

    done = call("verify")
    said = json.loads(call("verify", "--json").stdout)

    assert done.returncode == 65
    assert done.stdout.endswith("read 1 record and 1 blob: 2 damaged\n")
    assert set(said["damaged"]) == {BLOB, key_of(body("cells"))}
    assert (said["records"], said["blobs"]) == (1, 1)


def test_verify_is_a_fault_when_the_archive_cannot_be_read(copy: Path, call: Call) -> None:
    """A file in the archive's place is not an archive without damage."""
    (copy / "file").write_text("")

    assert call("verify", "--archive", "file").returncode == 71


# -- forget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", ".", "archive/inner", "notes"])
def test_copy_is_refused_when_its_folder_is_not_its_own(copy: Path, call: Call, place: str) -> None:
    """An empty variable of a shell means the working copy itself."""
    (copy / "notes").mkdir()
    (copy / "notes" / "a.md").touch()
    before = tree(copy)

    done = call("copy", place)

    assert done.returncode == 78, done.stderr
    assert "needs a folder of its own" in done.stderr
    assert tree(copy) == before


def test_forget_only_lists_when_not_told_yes(copy: Path, call: Call) -> None:
    """Without --yes nothing is removed, and it is said how."""
    path = _receipt(copy, "lost")

    done = call("forget")

    assert done.returncode == 0
    assert path in done.stdout
    assert "--yes" in done.stderr
    assert (copy / path).exists()


def test_forget_gives_up_what_the_archive_does_not_bear_out_when_told_yes(
    copy: Path, call: Call
) -> None:
    """Receipts of lost records and of other archives go; the plan is possible again."""
    put(archive_in(copy), copy / "out", body("cells", of="b"))
    kept = _receipt(copy, "a")
    gone = [_receipt(copy, "lost"), _receipt(copy, "b", archive="f" * 32)]

    done = call("forget", "--yes", "--json")

    assert sorted(json.loads(done.stdout)) == sorted(gone)
    assert "forgot 2 receipts" in done.stderr
    assert [str(each.path) for each in receipts.receipts(copy)] == [kept]
    archive = archive_in(copy)
    receipts.vouch(copy, index=archive.index(), archive=archive.find_identity(), address="")


def test_archive_ends_in_silence_when_nobody_reads(copy: Path, root: Path) -> None:
    """`quantgrid archive ... | head` shows no traceback."""
    _receipt(copy, "lost")
    reader, writer = os.pipe()
    os.close(reader)

    command = [sys.executable, "-m", "quantgrid", "archive", "forget", "--root", str(root)]
    done = subprocess.run(
        command, cwd=copy, stdout=writer, stderr=-1, text=True, timeout=BOUND_S, check=False
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (141, "")
