"""A working copy of the project in a folder of its own, for a benchmark to run in."""

import shutil
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PARTS = (
    "Snakefile",
    "rules",
    "config",
    "profiles",
    "scripts",
    "envs",
    "docs/report",
    "src/quantlm",
)


def lay(copy: Path) -> None:
    """Copy what a working copy needs to be planned and run."""
    for part in PARTS:
        source, target = PROJECT / part, copy / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
