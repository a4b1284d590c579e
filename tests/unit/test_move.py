"""`quantgrid move` puts what is kept here into the store, unless somebody computes it now."""

import argparse
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.commands import move
from quantgrid.errors import ConfigRefusal, HoldRefusal
from quantgrid.hold import Chain, Hold, Terms, new_holder
from quantgrid.job import Stage
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_settings
from quantgrid.mirror import Mirror
from quantgrid.store.folder import FolderStore

CELL = "n0-t20k-s0/none"
TRUNK = "n0-s0/16384"


@pytest.fixture
def call(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What the command prints in a fresh working copy with a second platform."""
    for part in ("config", "scripts", "src/quantlm"):
        shutil.copytree(root / part, tmp_path / part)
    shutil.copy(tmp_path / "config/platforms/local.yaml", tmp_path / "config/platforms/lab.yaml")
    monkeypatch.chdir(tmp_path)

    def of(*options: str) -> str:
        parser = argparse.ArgumentParser()
        move.configure(parser)
        assert move.main(parser.parse_args([*options, "--grid", "smoke"])) == 0
        return capsys.readouterr().out

    return of


@pytest.fixture
def stage(call: Callable[..., str], tmp_path: Path) -> Stage:
    """The trunk that the cell is made from, of which a checkpoint is kept here."""
    assert call
    stage = trace(load_grid(tmp_path, "smoke"), Science(tmp_path)).milestones["n0-s0", 16384]
    volume = tmp_path / load_settings(tmp_path, {}).volume
    state = layout.state_folder(volume, TRUNK, stage.name, stage.fingerprint)
    state.mkdir(parents=True)
    (state / "5000.bin").write_text("state")
    layout.link_file(state).write_text(json.dumps({"tokens": 5000, "checkpoint": "5000.bin"}))
    layout.links_file(state).write_text(json.dumps([{"attempt": "a", "end": "cap"}]))
    return stage


def test_checkpoint_is_where_another_machine_finds_it_after_a_move(
    call: Callable[..., str], stage: Stage, tmp_path: Path
) -> None:
    """Stage, checkpoint and the command that goes on are told; the bytes are in the store."""
    said = call(CELL, "--to", "lab")

    key = layout.mirror_list(layout.mirror_folder(TRUNK, stage.name, stage.fingerprint), 1)
    assert f"moved  trunk of {TRUNK}: checkpoint 5000.bin after 1 link, to {key}" in said
    assert (
        f"next   snakemake --profile lab results/{CELL}/result.json "
        "--config platform=lab grid=smoke" in said
    )
    assert "must see the folder" in said
    mirror = Mirror(
        FolderStore(tmp_path / "archive"), TRUNK, "trunk", stage.fingerprint, tmp_path / "cache"
    )
    elsewhere = layout.state_folder(tmp_path / "elsewhere", TRUNK, "trunk", stage.fingerprint)
    assert mirror.restore(elsewhere) == key
    assert (elsewhere / "5000.bin").read_text() == "state"


def test_nothing_is_moved_when_somebody_computes_it(
    call: Callable[..., str], stage: Stage, tmp_path: Path
) -> None:
    """The refusal names who; there is no list in the store."""
    store = FolderStore(tmp_path / "archive")
    terms = Terms(TRUNK, new_holder("/elsewhere", "copy", "attempt"), 600.0)
    assert isinstance(Chain(store, stage.fingerprint).take(terms), Hold)

    with pytest.raises(HoldRefusal, match=f"process {os.getpid()} on .* in /elsewhere"):
        call(CELL, "--to", "lab")

    assert list(store.list(layout.STATE)) == []


def test_move_says_so_when_nothing_is_kept_here(call: Callable[..., str]) -> None:
    """A cell that was never begun starts from its parents there; JSON says the same."""
    assert f"Nothing of {CELL} is kept here" in call(CELL, "--to", "lab")
    assert json.loads(call(CELL, "--to", "lab", "--json"))["moved"] == []


def test_move_is_refused_when_the_platform_is_unknown(call: Callable[..., str]) -> None:
    """The message lists those that there are."""
    with pytest.raises(ConfigRefusal, match="moon") as refused:
        call(CELL, "--to", "moon")

    assert "lab" in str(refused.value)
