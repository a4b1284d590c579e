"""Without its guard an incident test falls; with it, in the same copy, it stands."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guards.removed import MUTATIONS, Mutation

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "quantgrid"
LEFT_OUT = {".git", ".venv", ".snakemake", "results", "archive", "volume", "logs", "work"}
"""Of the working copy itself; folders of these names further down are sources."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.guard)
def test_guard_and_its_test_are_where_the_list_says(mutation: Mutation) -> None:
    """The text occurs once, and the test exists."""
    file, _, name = mutation.node.partition("::")

    for source, old, _ in mutation.edits:
        assert (SOURCE / source).read_text().count(old) == 1, mutation
    assert f"def {name}(" in (PROJECT / file).read_text()


def test_every_incident_has_a_guard_that_is_taken_out() -> None:
    """No file of incidents is without a line of the table."""
    played = {each.test.partition("::")[0] for each in MUTATIONS}

    assert played == {path.name for path in (PROJECT / "tests/incidents").glob("test_*.py")}


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What a copy does not need."""
    return LEFT_OUT & set(names) if Path(folder) == PROJECT else {"__pycache__"} & set(names)


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
    shutil.copytree(PROJECT, copy, ignore=_left_out, symlinks=True)
    before = _play(copy, mutation.node)
    if " passed" not in before.stdout and " skipped" in before.stdout:
        pytest.skip(f"not played on this machine: {before.stdout.strip().splitlines()[-1]}")
    for source, old, new in mutation.edits:
        path = copy / "src" / "quantgrid" / source
        path.write_text(path.read_text().replace(old, new))
    after = _play(copy, mutation.node)
    _note(mutation, "stands" if before.returncode == 0 else "FALLS", after.returncode)

    assert before.returncode == 0, before.stdout[-3000:]
    assert after.returncode == 1, after.stdout[-3000:]
    assert "collected 0 items" not in after.stdout


HEAD = "| guard | taken out of | test | with it | without it |\n|---|---|---|---|---|\n"


def _note(mutation: Mutation, before: str, code: int) -> None:
    """One line of the table that a nightly leaves behind, in the place of an earlier one."""
    table = PROJECT / "results" / "guards.md"
    table.parent.mkdir(exist_ok=True)
    words = "falls" if code == 1 else f"STANDS (exit code {code})"
    files = ", ".join(dict.fromkeys(source for source, _, _ in mutation.edits))
    line = f"| {mutation.guard} | {files} | {mutation.test} | {before} | {words} |\n"
    with table.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several workers write it
        file.seek(0)
        rows = {row.split(" | ")[0]: row for row in file.readlines()[2:]}
        rows[f"| {mutation.guard}"] = line
        file.truncate(0)
        file.write(HEAD + "".join(sorted(rows.values())))
