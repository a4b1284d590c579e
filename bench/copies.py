"""A working copy of the project in a folder of its own, for a benchmark to run in."""

import os
import resource
import shutil
import subprocess
import sys
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


def cpu_of(copy: Path, *words: str) -> float:
    """User and system seconds of a module of Python that is run in a copy, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", *words],
        cwd=copy,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)
