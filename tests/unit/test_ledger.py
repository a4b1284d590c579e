"""The ledger has one row per cell and fingerprint, whoever writes at the same time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core_parts import BOUND_S, CELL, body, python_path
from quantgrid import ledger
from quantgrid.archive.record import sealed
from quantgrid.errors import DataFault


def _enter(folder: Path, **changes: object) -> None:
    record = sealed({**body("cells"), **changes})
    ledger.enter(folder / "ledger.csv", folder / "work" / "lock", record)


def _text(folder: Path) -> str:
    return (folder / "ledger.csv").read_text()


def test_ledger_has_a_row_when_a_record_is_entered(tmp_path: Path) -> None:
    """A row says what, judged how, where, when and at what cost."""
    _enter(tmp_path)

    own = body("cells")["fingerprint"]
    assert _text(tmp_path) == (
        "cell,fingerprint,verdict,where,when,cost_usd\n"
        f"{CELL},{own},unjudged,local,2026-11-30T12:00:00Z,\n"
    )
    assert ledger.read(tmp_path / "ledger.csv")[CELL, own]["where"] == "local"


def test_ledger_is_the_same_when_entered_in_another_order(tmp_path: Path) -> None:
    """Rows are sorted: the order of folds is no difference for git."""
    for folder, order in ((tmp_path / "a", "xyz"), (tmp_path / "b", "zxy")):
        for cell in order:
            _enter(folder, cell=f"{cell}/none")

    assert _text(tmp_path / "a") == _text(tmp_path / "b")


def test_ledger_brings_a_row_up_to_date_when_it_changed(tmp_path: Path) -> None:
    """A verdict or a cost replaces the row; another fingerprint is another row."""
    _enter(tmp_path)
    _enter(tmp_path, verdict="VALID", cost={"usd": 0.12345})
    _enter(tmp_path, fingerprint="f" * 64)

    assert _text(tmp_path).count("\n") == 3
    assert ",VALID,local,2026-11-30T12:00:00Z,0.1235\n" in _text(tmp_path)


def test_ledger_is_left_alone_when_nothing_changed(tmp_path: Path) -> None:
    """Folding the same record again writes nothing."""
    _enter(tmp_path)
    before = (tmp_path / "ledger.csv").stat()
    _enter(tmp_path)

    assert (tmp_path / "ledger.csv").stat().st_ino == before.st_ino


def test_ledger_is_empty_when_there_is_none(tmp_path: Path) -> None:
    """A repository in which nothing was run yet has no rows."""
    assert ledger.read(tmp_path / "ledger.csv") == {}


MERGE = "<<<<<<< HEAD\n{row}=======\n{row}>>>>>>> other\n"


@pytest.mark.parametrize(
    ("break_it", "line"),
    [
        (lambda text: text[:0], 1),
        (lambda text: text.replace("verdict", "judgement"), 1),
        (lambda text: text.splitlines(keepends=True)[1], 1),
        (lambda text: text[:-5], 3),
        (lambda text: text + "one,two\n", 4),
        (lambda text: text.replace("cell,", "<<<<<<< HEAD\ncell,", 1), 1),
        (lambda text: text + MERGE.format(row="a,b,c,d,e,f\n"), 4),
        (lambda text: text + "\n", 4),
        (lambda text: text + "a,b,c,d,e,f\n", 4),
        (lambda text: text + "a,b,VALID,d,e,nan\n", 4),
        (lambda text: text + "a,b,gr\udcfcn,d,e,1\n", 4),
    ],
)
def test_ledger_is_refused_when_a_line_is_no_row(
    tmp_path: Path, break_it: Callable[[str], str], line: int
) -> None:
    """A torn or half-merged ledger is never written over; the line is named."""
    _enter(tmp_path)
    _enter(tmp_path, fingerprint="f" * 64, cost={"usd": 1.0})
    broken = break_it(_text(tmp_path))
    (tmp_path / "ledger.csv").write_bytes(os.fsencode(broken))

    with pytest.raises(DataFault, match=f"ledger.csv:{line}"):
        _enter(tmp_path, fingerprint="e" * 64)
    assert (tmp_path / "ledger.csv").read_bytes() == os.fsencode(broken)


_FOLDER = """
import sys
from pathlib import Path
from core_parts import body
from quantgrid import ledger
from quantgrid.archive.record import sealed
print("ready", flush=True); sys.stdin.readline()
for number in range(20):
    record = sealed({**body("cells"), "cell": f"{sys.argv[1]}/{number}"})
    ledger.enter(Path("ledger.csv"), Path("work/lock"), record)
"""


def test_ledger_keeps_every_row_when_folds_race(tmp_path: Path) -> None:
    """Three processes enter twenty cells each: sixty rows."""
    folders = [
        subprocess.Popen(
            [sys.executable, "-c", _FOLDER, name],
            cwd=tmp_path,
            env={**os.environ, **python_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for folder in folders:
        assert folder.stdout is not None
        assert folder.stdout.readline() == "ready\n"
    for folder in folders:
        assert folder.stdin is not None
        folder.stdin.write("go\n")
        folder.stdin.flush()
    for folder in folders:
        folder.communicate(timeout=BOUND_S)
        assert folder.returncode == 0

    assert len(ledger.read(tmp_path / "ledger.csv")) == 60
