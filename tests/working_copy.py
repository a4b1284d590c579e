"""Working copies that a test may run, change and break."""

import fcntl
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
FEW = "three"
"""A grid of three cells, for what does not depend on how many there are."""
FEW_FILE = """
corpus: shakespeare
evaluation: {sequences: 16}
blocks:
  main:
    models: [n0]
    tokens: [20_000]
    seeds: [0]
    forms:
      - {method: none}
      - {method: rtn, bits: 4, group: row, scale: noclip}
      - {method: qat, bits: ternary, group: row, scale: absmean}
"""


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
        self, *arguments: str, code: int | None = 0, grid: str = GRID, timeout_s: float = 280
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

    def call(self, *command: str, code: int | None = 0, timeout_s: float = 280) -> Outcome:
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


def lay(root: Path, *, light: bool) -> WorkingCopy:
    """Lay a fresh working copy; with `light`, the science costs nothing."""
    for part in PARTS:
        source = PROJECT / part
        target = root / part
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    (root / f"config/grids/{FEW}.yaml").write_text(FEW_FILE)
    if light:
        for script in LIGHT.glob("*.py"):
            shutil.copy(script, root / "scripts" / script.name)
        WorkingCopy(root).edit("config/platforms/local.yaml", "warm: true", "warm: false")
    return WorkingCopy(root)


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
    copy = lay(root, light=True)
    copy.snakemake(grid=grid)
    return copy
