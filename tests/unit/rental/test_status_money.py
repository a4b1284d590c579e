"""`quantgrid status` says what was spent against the cap, and nothing where nothing was rented."""

from pathlib import Path

import pytest

from quantgrid.main import dispatch
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Cost, Promise
from quantgrid.store.folder import FolderStore
from working_copy import lay


def test_money_is_told_against_the_cap_when_machines_were_rented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One hour that runs at $3.60 and ten seconds that are over; other grids are not counted."""
    copy = lay(tmp_path / "copy", light=True)
    monkeypatch.chdir(copy.root)
    assert dispatch(["status", "--grid", "smoke"]) == 0
    assert "money " not in capsys.readouterr().out

    register = Register(FolderStore(copy.root / "archive"))
    register.promise(Promise("1" * 12, "a" * 64, "smoke", 3_999_996_400, 4_000_000_000, 3_600_000))
    register.promise(Promise("2" * 12, "b" * 64, "smoke", 0, 10, 3_600_000))
    register.charge(Cost("2" * 12, 0, 10, 3_600_000))
    register.promise(Promise("3" * 12, "c" * 64, "paper", 0, 3600, 9_000_000))
    register.charge(Cost("3" * 12, 0, 3600, 9_000_000))
    assert dispatch(["status", "--grid", "smoke"]) == 0

    said = capsys.readouterr().out
    assert "money     $0.01 spent, up to $3.60 to come, $3.60 an hour" in said
