"""Working copies that a test may run, change and break."""

import csv
import fcntl
import json
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import forked

PROJECT = Path(__file__).parents[1]
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
LIGHT = Path(__file__).parent / "light_scripts"
GRID = "smoke"
CELLS = 14
WHOLE = [("demo", 105, True), ("smoke", CELLS, False)]
"""Grid, cells, and whether the science is light: what a night computes on each platform."""
SLOW = 6.0
"""Times faster than a watch where hours are worked: what a busy machine takes is no hang."""
FEW = "three"
"""A grid of three cells, for what does not depend on how many there are."""
SIZES = {FEW: 3, GRID: CELLS}
NONE = "{method: none}"
RTN = "{method: rtn, bits: 4, group: row, scale: noclip}"
QAT = "{method: qat, bits: ternary, group: row, scale: absmean}"
OF_A_RUN = frozenset({"wall_s", "cpu_s", "platform", "host", "seconds"})
"""Columns of the table that depend on when and where a cell was made."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended and what a person saw."""

    code: int
    text: str

    @property
    def jobs(self) -> dict[str, int]:
        """Rule to number of jobs, from Snakemake's job table; empty when nothing is to be done."""
        rows = re.findall(r"^(\w+) +(\d+)$", self.text.partition("Job stats:")[2], re.MULTILINE)
        return {rule: int(count) for rule, count in rows if rule not in {"all", "total"}}

    @property
    def plan(self) -> str:
        """The plan line."""
        return next(line for line in self.text.splitlines() if line.startswith("plan "))


@dataclass(frozen=True)
class WorkingCopy:
    """A working copy of the project in a folder of its own."""

    root: Path

    def __truediv__(self, relative: str) -> Path:
        return self.root / relative

    def snakemake(
        self, *arguments: str, code: int | None = 0, grid: str = GRID, timeout_s: float = 560
    ) -> Outcome:
        """Run Snakemake with the local profile; fail unless it ends with `code`."""
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local"]
        config = ["--config", f"grid={grid}"] if grid else []
        return self.call(*command, *arguments, *config, code=code, timeout_s=timeout_s)

    def look(self, *arguments: str, code: int | None = 0, grid: str = GRID) -> Outcome:
        """A dry run, with the job table only."""
        quiet = ("-n", "--quiet", "rules", "host")
        return self.snakemake(*arguments, *quiet, code=code, grid=grid)

    def quantgrid(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a command of quantgrid in the working copy."""
        return self.call(sys.executable, "-m", "quantgrid", *arguments, code=code)

    def call(self, *command: str, code: int | None = 0, timeout_s: float = 560) -> Outcome:
        """Run a program in the working copy; standard output and error together."""
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = forked.run([*command], cwd=self.root, env=environment, timeout=timeout_s)
        if code is not None and done.returncode != code:
            pytest.fail(f"exit code {done.returncode}, not {code}:\n{done.stdout[-6000:]}")
        return Outcome(done.returncode, done.stdout)

    def edit(self, relative: str, old: str, new: str) -> None:
        """Replace a text that occurs in a file."""
        path = self.root / relative
        text = path.read_text()
        assert old in text, f"{relative} no longer contains {old!r}"
        path.write_text(text.replace(old, new))

    def copy(self, root: Path) -> "WorkingCopy":
        """The same working copy elsewhere, times of files included."""
        shutil.copytree(self.root, root, symlinks=True)
        return WorkingCopy(root)

    def make_newer(self) -> None:
        """Give every file a later time, in no order, as a copy does."""
        paths = sorted(self.root.rglob("*"))
        random.Random(len(paths)).shuffle(paths)
        now_s = time.time()
        for age_s, path in enumerate(paths):
            os.utime(path, (now_s - age_s / 100,) * 2, follow_symlinks=False)


def lay(root: Path, *, light: bool, sealed: WorkingCopy | None = None) -> WorkingCopy:
    """Lay a fresh working copy; with `light`, the science costs nothing.

    Args:
        root: Where it is.
        light: Whether the scripts are those that cost nothing.
        sealed: A copy whose corpus is sealed, which then is so here too; nothing by default.
    """
    for part in PARTS:
        source = PROJECT / part
        target = root / part
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    (root / f"config/grids/{FEW}.yaml").write_text(grid_file(NONE, RTN, QAT))
    if light:
        for script in LIGHT.glob("*.py"):
            shutil.copy(script, root / "scripts" / script.name)
        WorkingCopy(root).edit("config/platforms/local.yaml", "warm: true", "warm: false")
    for part in ("volume", "receipts") if sealed else ():
        shutil.copytree(sealed / part, root / part)
    return WorkingCopy(root)


def grid_file(*forms: str, sequences: int = 16) -> str:
    """A grid of one small base in some forms."""
    return f"""
corpus: shakespeare
evaluation: {{sequences: {sequences}}}
blocks:
  main:
    models: [n0]
    tokens: [20_000]
    seeds: [0]
    forms: [{", ".join(forms)}]
"""


def table(grid: str = GRID) -> str:
    """The target that is all cells of a grid and no page, which costs as much as they do."""
    return f"results/{grid}.csv"


def numbers(copy: WorkingCopy, grid: str) -> dict[str, Any]:
    """All that must depend neither on interruptions nor on the place: results, files, the table."""
    found: dict[str, Any] = {}
    for path in sorted((copy / "results").glob("*/*/result.json")):
        record = json.loads(path.read_bytes())
        weights = record["weights"]
        found[record["cell"]] = [record["fingerprint"], record["results"]]
        found[f"{record['cell']} weights"] = [weights["results"], weights["blobs"]]
    with (copy / table(grid)).open(newline="") as file:
        rows = list(csv.DictReader(file))
    found["table"] = [{k: v for k, v in row.items() if k not in OF_A_RUN} for row in rows]
    found["blobs"] = sorted(path.name for path in (copy / "archive/blobs").iterdir())
    return found


def aim(copy: WorkingCopy, address: str) -> None:
    """Let the configuration of a working copy name a bucket."""
    place, _, endpoint = address.partition("?endpoint_url=")
    path = copy / "config/config.yaml"
    kept = [
        line
        for line in path.read_text().splitlines()
        if not line.startswith(("archive:", "endpoint_url:"))
    ]
    path.write_text("\n".join([*kept, f"archive: {place}", f"endpoint_url: {endpoint}", ""]))


def once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], WorkingCopy]
) -> WorkingCopy:
    """A working copy that is made once for all workers of a run; whoever uses it takes a copy."""
    base = factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"once-{name}"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy, is_made = WorkingCopy(place / "copy"), place / "made"
        if not is_made.exists():
            shutil.rmtree(copy.root, ignore_errors=True)
            make(copy.root)
            is_made.touch()
    return copy


def run_light(root: Path, grid: str = GRID) -> WorkingCopy:
    """A working copy with light science whose grid is complete."""
    return run_whole(root, grid, light=True, timeout_s=280)


def run_corpus(root: Path) -> WorkingCopy:
    """A working copy whose corpus is sealed, and no cell made."""
    copy = lay(root, light=True)
    copy.snakemake("corpus", grid=FEW, timeout_s=280)
    return copy


def run_whole(root: Path, grid: str, *, light: bool, timeout_s: float = 2400) -> WorkingCopy:
    """A working copy whose grid is complete, with real science or a light one."""
    copy = lay(root, light=light)
    copy.snakemake(grid=grid, timeout_s=timeout_s)
    return copy
