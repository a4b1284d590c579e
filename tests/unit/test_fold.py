"""A fold brings a verified record back as a result, and the ledger knows of it first."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core_parts import BOUND_S, CELL, KILLED, archive_in, body, key_of, killer, put, tree
from quantgrid import layout, ledger, verdicts

KEY = key_of(body("cells"))
OUT = layout.RESULT.format(base="b", variant="v")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A working copy whose archive holds one cell."""
    root = tmp_path / "copy"
    put(archive_in(root), tmp_path / "out", body("cells"))
    return root


def _fold(copy: Path, key: str = KEY, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "quantgrid", "fold", key, "--archive", "archive", "--out", OUT]
    return subprocess.run(
        command,
        cwd=copy,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def _rows(copy: Path) -> list[tuple[str, str]]:
    return list(ledger.read(copy / layout.LEDGER))


def test_fold_publishes_result_and_row_when_the_record_is_whole(copy: Path) -> None:
    """The result is the record; folding again changes no byte."""
    assert _fold(copy).returncode == 0
    first = tree(copy)

    assert json.loads((copy / OUT).read_bytes()) == archive_in(copy).record(KEY)
    assert _rows(copy) == [(CELL, body()["fingerprint"])]
    record = archive_in(copy).record(KEY)
    verdict = verdicts.find_local(copy / OUT, record)
    assert verdict == verdicts.find_newest(archive_in(copy), record)
    assert verdict is not None
    assert (verdict["verdict"], verdict["by"]) == ("VALID", {"judge": 1})
    assert _fold(copy).returncode == 0
    assert tree(copy) == first


@pytest.mark.parametrize(
    ("break_it", "code", "says"),
    [
        (lambda path: path.unlink(), 78, "the archive lacks"),
        (lambda path: path.write_bytes(path.read_bytes()[:200]), 65, "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"1.5", b"1.4")), 65, "damaged"),
    ],
)
def test_fold_publishes_nothing_when_the_record_is_bad(
    copy: Path, break_it: Callable[[Path], object], code: int, says: str
) -> None:
    """A lost, torn or changed record reaches neither results nor ledger; its key is named."""
    break_it(copy / "archive" / KEY)

    done = _fold(copy)

    assert done.returncode == code
    assert says in done.stderr
    assert KEY in done.stderr
    assert "Traceback" not in done.stderr
    assert not (copy / OUT).exists()
    assert _rows(copy) == []


def test_fold_publishes_nothing_when_the_record_is_another_ones(copy: Path) -> None:
    """A record under another fingerprint's key never becomes that one's result."""
    other = key_of(body("cells", of="b"))
    path = copy / "archive" / other
    path.parent.mkdir(parents=True)
    path.write_bytes((copy / "archive" / KEY).read_bytes())

    done = _fold(copy, other)

    assert (done.returncode, "another key" in done.stderr) == (65, True)
    assert not (copy / OUT).exists()
    assert _rows(copy) == []


def test_fold_keeps_the_old_result_when_the_ledger_is_torn(copy: Path) -> None:
    """Without a row there is no result."""
    (copy / layout.LEDGER).write_text("torn")

    assert _fold(copy).returncode == 65
    assert not (copy / OUT).exists()


@pytest.mark.parametrize(("at", "rows"), [(1, 0), (2, 0), (3, 0), (4, 1)])
def test_fold_is_finished_when_it_was_killed_before(
    copy: Path, tmp_path: Path, at: int, rows: int
) -> None:
    """SIGKILL before verdict, row or result: no result without its row; again makes all."""
    done = _fold(copy, KILL_AT=f"runner:{at}", **killer(tmp_path / "k"))

    assert done.returncode == KILLED
    assert not (copy / OUT).exists()
    assert len(_rows(copy)) == rows
    assert _fold(copy).returncode == 0
    assert (copy / OUT).exists()
    assert len(_rows(copy)) == 1
