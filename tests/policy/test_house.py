"""The one-command tools of the house never harm what is not theirs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def _link_profiles(root: Path, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"XDG_CONFIG_HOME": str(folder), "PATH": path}
    command = [root / ".ci" / "link-profiles"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_profiles_are_linked_once_when_asked_twice(root: Path, tmp_path: Path) -> None:
    """`snakemake --profile local` works as typed afterwards, and a second call says nothing."""
    first = _link_profiles(root, tmp_path)
    second = _link_profiles(root, tmp_path)

    assert (tmp_path / "snakemake" / "local").resolve() == root / "profiles" / "local"
    assert "--profile local" in first
    assert second == ""


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_profiles_of_others_stay_when_linking(root: Path, tmp_path: Path, kind: str) -> None:
    """Whatever has the name already stays as it is, and is named."""
    foreign = tmp_path / "snakemake" / "local"
    foreign.parent.mkdir()
    match kind:
        case "file":
            foreign.write_text("cores: 1")
        case "folder":
            foreign.mkdir()
        case "link":
            foreign.symlink_to(tmp_path)
        case _:
            foreign.symlink_to(tmp_path / "gone")
    before = foreign.lstat()

    said = _link_profiles(root, tmp_path)

    assert foreign.lstat().st_ino == before.st_ino
    assert f"Left alone: {foreign}" in said


@pytest.mark.parametrize("code", [0, 3])
def test_installation_tells_that_it_goes_on_and_how_it_ends(
    root: Path, tmp_path: Path, code: int
) -> None:
    """Pip is silent for minutes; a failed installation must not count as made."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nsleep 1\nexit {code}\n")
    python.chmod(0o755)
    makefile = (root / "Makefile").read_text()
    assert "sleep 20" in makefile
    (tmp_path / "Makefile").write_text(makefile.replace("sleep 20", "sleep 0.2"))
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".ci").mkdir()
    shutil.copy(root / ".ci/ours-first", tmp_path / ".ci")

    command = ["make", ".venv/run.stamp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode == 0) == (code == 0)
    assert re.search(r"== still installing: \d+ s, \d+ MB so far", done.stdout)
    assert (tmp_path / ".venv" / "run.stamp").exists() == (code == 0)


def test_steps_of_ci_run_in_order_when_listed(root: Path) -> None:
    """Each step is executable, and the tests come last, so that their closing line is seen."""
    steps = sorted((root / ".ci" / "steps").iterdir())

    assert [step.name for step in steps if not os.access(step, os.X_OK)] == []
    assert steps[-1].name.endswith("-test")


def _pins(text: str) -> dict[str, str]:
    """Name -> exact version of every `name==version` in a text."""
    found = re.findall(r"^[\s-]*([A-Za-z0-9_.-]+)==(\S+)$", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_environments_agree_when_compared(root: Path) -> None:
    """The conda environment names the versions that `make` installs."""
    installed = _pins((root / "constraints.txt").read_text())
    named = _pins((root / "envs" / "quantgrid.yaml").read_text())

    assert len(named) > 5
    assert {name: installed[name] for name in named} == named


def test_constraints_are_exact_when_read(root: Path) -> None:
    """Every line is one exact version of a public release, without local versions or places."""
    text = (root / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    assert len(lines) > 50
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", line)] == []
