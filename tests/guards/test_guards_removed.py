"""Without its guard an incident test falls; with it, in the same copy, it stands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guards.removed import MUTATIONS, Mutation

PROJECT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", "__pycache__", "results", "archive", "volume", "logs", "work"
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.guard)
def test_guard_and_its_test_are_where_the_list_says(mutation: Mutation) -> None:
    """The text occurs once, and the test exists."""
    text = (PROJECT / "src" / "quantgrid" / mutation.file).read_text()
    file, _, name = mutation.node.partition("::")

    assert text.count(mutation.old) == 1, mutation
    assert f"def {name}(" in (PROJECT / file).read_text()


def _play(copy: Path, node: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-x", "--nightly", node],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )


@pytest.mark.nightly
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.guard)
def test_incident_test_falls_without_its_guard(mutation: Mutation, tmp_path: Path) -> None:
    """It passes in a copy of the project, and fails there by an assertion without the guard."""
    copy = tmp_path / "copy"
    shutil.copytree(PROJECT, copy, ignore=LEFT_OUT, symlinks=True)
    path = copy / "src" / "quantgrid" / mutation.file
    before = _play(copy, mutation.node)
    path.write_text(path.read_text().replace(mutation.old, mutation.new))
    after = _play(copy, mutation.node)
    _note(mutation, "stands" if before.returncode == 0 else "FALLS", after.returncode)

    assert before.returncode == 0, before.stdout[-3000:]
    assert after.returncode == 1, after.stdout[-3000:]
    assert "collected 0 items" not in after.stdout


def _note(mutation: Mutation, before: str, code: int) -> None:
    """One line of the table that a nightly leaves behind."""
    table = PROJECT / "results" / "guards.md"
    table.parent.mkdir(exist_ok=True)
    head = "| guard | taken out of | test | with it | without it |\n|---|---|---|---|---|\n"
    with table.open("a") as file:
        file.write("" if file.tell() else head)
        words = "falls" if code == 1 else f"STANDS (exit code {code})"
        file.write(
            f"| {mutation.guard} | {mutation.file} | {mutation.test} | {before} | {words} |\n"
        )
