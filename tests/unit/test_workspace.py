"""Attempts have a private directory for as long as they live."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import BOUND_S, CLOCK, python_path
from quantgrid import layout, workspace

_ATTEMPT = """
import sys
from pathlib import Path
from core_parts import CLOCK
from quantgrid import workspace
with workspace.attempt(Path(), CLOCK) as folder:
    (folder / "file").touch()
    print("inside", flush=True)
    sys.stdin.readline()
"""


def _start(root: Path) -> "subprocess.Popen[str]":
    """A process inside an attempt, until it is told to leave."""
    child = subprocess.Popen(
        [sys.executable, "-c", _ATTEMPT],
        cwd=root,
        env={**os.environ, **python_path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "inside\n"
    return child


def _attempts(root: Path) -> list[Path]:
    return sorted((root / layout.ATTEMPTS).iterdir())


def test_attempt_has_a_directory_when_inside(tmp_path: Path) -> None:
    """Two attempts at one moment have two directories; both are gone afterwards."""
    with workspace.attempt(tmp_path, CLOCK) as one, workspace.attempt(tmp_path, CLOCK) as other:
        assert one != other
        assert one.is_dir()
        assert other.is_dir()

    assert _attempts(tmp_path) == []


def _fail(root: Path) -> None:
    with workspace.attempt(root, CLOCK) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").touch()
        raise RuntimeError


def test_attempt_leaves_nothing_when_it_fails(tmp_path: Path) -> None:
    """An error inside removes the directory with all that is in it."""
    with pytest.raises(RuntimeError):
        _fail(tmp_path)
    assert _attempts(tmp_path) == []


def test_attempt_leaves_others_alone_when_it_linked_to_them(tmp_path: Path) -> None:
    """A link inside is removed; what it leads to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()

    with workspace.attempt(tmp_path, CLOCK) as folder:
        (folder / "folder").symlink_to(outside)
        (folder / "file").symlink_to(outside / "file")
        (folder / "dangling").symlink_to("nowhere")

    assert _attempts(tmp_path) == []
    assert (outside / "file").exists()


def test_clear_dead_takes_only_the_dead_when_one_lives(tmp_path: Path) -> None:
    """SIGKILL frees a directory at once; a living attempt keeps its own."""
    dead, living = _start(tmp_path), _start(tmp_path)
    dead.send_signal(signal.SIGKILL)
    dead.wait(timeout=BOUND_S)
    torn = tmp_path / layout.ATTEMPTS / "without-lock"
    torn.mkdir()

    assert workspace.clear_dead(tmp_path) == 2
    (kept,) = _attempts(tmp_path)
    assert (kept / "file").exists()

    living.communicate("leave\n", timeout=BOUND_S)
    assert living.returncode == 0
    assert _attempts(tmp_path) == []


def test_clear_dead_waits_when_a_directory_is_being_made(tmp_path: Path) -> None:
    """Between its making and its lock a directory belongs to somebody: clearing never meets it."""
    text = """
import os, sys
from pathlib import Path
from core_parts import CLOCK
from quantgrid import workspace
def hook(event, args):
    if event == "os.mkdir" and "-" in Path(str(args[0])).name:
        print("making", flush=True)
        sys.stdin.readline()
sys.addaudithook(hook)
with workspace.attempt(Path(), CLOCK) as folder:
    print(folder.is_dir(), flush=True)
"""
    clearer = "from pathlib import Path; from quantgrid import workspace; "
    clearer += "print(workspace.clear_dead(Path()))"
    (tmp_path / layout.ATTEMPTS).mkdir(parents=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    pipes["env"] = {**os.environ, **python_path()}
    maker = subprocess.Popen([sys.executable, "-c", text], **pipes)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "making\n"

    clearing = subprocess.Popen([sys.executable, "-c", clearer], **pipes)
    with pytest.raises(subprocess.TimeoutExpired):
        clearing.wait(timeout=1)
    said, _ = maker.communicate("go on\n", timeout=BOUND_S)

    assert said == "True\n"
    assert clearing.communicate(timeout=BOUND_S)[0] in {
        "0\n",
        "1\n",
    }  # its maker may be gone by now


def test_clear_dead_finds_nothing_when_nothing_was_attempted(tmp_path: Path) -> None:
    """A fresh working copy is no error."""
    assert workspace.clear_dead(tmp_path) == 0
