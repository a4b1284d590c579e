"""The guides as a person types them: every block in order, in a working copy of their own."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import forked
from guide_commands import GUIDES, PROJECT, blocks
from working_copy import WorkingCopy


def _has(path: Path, *, nightly: bool) -> bool:
    return any(block.is_run(nightly=nightly) for block in blocks(path.read_text()))


def _type(copy: WorkingCopy, guide: Path, *, nightly: bool) -> None:
    """Type each block of a guide; a file that it shows is written first."""
    profiles = copy.root.parent / "home" / "snakemake"
    profiles.mkdir(parents=True)
    (profiles / "local").symlink_to(copy / "profiles/local")
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(profiles.parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **({"LIGHT_WORK_S": "5"} if nightly else {}),  # a smoke kills what can save
    }
    if nightly:
        shutil.copytree(PROJECT / "examples", copy / "examples")
    for block in blocks(guide.read_text()):
        if block.file:
            (copy / block.file).write_text(block.text)
        if not block.is_run(nightly=nightly):
            continue
        typed = ["bash", "-euo", "pipefail", "-c", block.text]
        limit_s = 1200 if nightly else 120
        done = forked.run(typed, cwd=copy.root, env=environment, timeout=limit_s)
        assert done.returncode == 0, f"{block.text}\n{done.stdout[-4000:]}"


@pytest.mark.parametrize(
    "guide",
    [each for each in sorted(GUIDES.glob("*.md")) if _has(each, nightly=False)],
    ids=lambda guide: guide.stem,
)
def test_cheap_commands_of_a_guide_succeed(made: WorkingCopy, guide: Path) -> None:
    """In a working copy whose grid smoke is complete."""
    _type(made, guide, nightly=False)


@pytest.mark.nightly
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    "guide",
    [each for each in sorted(GUIDES.glob("*.md")) if _has(each, nightly=True)],
    ids=lambda guide: guide.stem,
)
def test_all_commands_of_a_guide_succeed(made: WorkingCopy, guide: Path) -> None:
    """The same with those that compute."""
    _type(made, guide, nightly=True)
