"""What a cell costs beyond its own work: 200 cells that do nothing, through five ways to run them.

    python bench/overhead.py [--json] [--cells 200]

CPU seconds are user and system time of every process that a way started, servers included; wall
seconds mean little on a machine that does other things.  A floor row runs nothing but the scripts:
`xargs -P2` over `python write.py`.  The quantgrid rows make a quantised form and its evaluation per
cell, deposit both and fold the result (two Snakemake jobs a cell), with light science.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import copies
import trivial

LIGHT = copies.PROJECT / "tests/light_scripts"
FORMS = 8

GRID = """
corpus: shakespeare
evaluation: {{sequences: 16}}
blocks:
  main:
    models: [n0]
    tokens: [20_000]
    seeds: [{seeds}]
    forms:
      - {{method: none}}
      - {{method: rtn, bits: 4, group: row, scale: absmax}}
{forms}
"""
SUBMITIT = f"""
import collections, sys
import submitit
{trivial.SUBMITTED}
executor, waiting = submitit.LocalExecutor(folder="logs"), collections.deque()
executor.update_parameters(timeout_min=5)
for cell in range(int(sys.argv[1])):
    waiting.append(executor.submit(write, f"out/{{cell}}.json"))
    if len(waiting) == 2:
        waiting.popleft().result()
for job in waiting:
    job.result()
"""


@dataclass(frozen=True)
class Row:
    """What one way cost per cell, in milliseconds; `ratio` is CPU beside that of the floor."""

    way: str
    cpu_ms: float
    wall_ms: float
    over_floor_ms: float = 0.0
    ratio: float = 1.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--cells", type=int, default=200, help=f"a multiple of {FORMS}")
    options = parser.parse_args()
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):  # measured as Python is by default
        os.environ.pop(name, None)
    trivial.adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        rows = compared(measure_all(Path(folder), options.cells))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{'per cell':<34} {'CPU ms':>8} {'wall ms':>8} {'over floor':>11} {'ratio':>6}")
    for row in rows:
        print(
            f"{row.way:<34} {row.cpu_ms:>8.1f} {row.wall_ms:>8.1f} "
            f"{row.over_floor_ms:>11.1f} {row.ratio:>6.1f}"
        )


def compared(rows: list[Row]) -> list[Row]:
    """Rows beside the first, which is the floor."""
    floor = rows[0].cpu_ms
    return [
        Row(row.way, row.cpu_ms, row.wall_ms, row.cpu_ms - floor, row.cpu_ms / floor)
        for row in rows
    ]


def measure_all(folder: Path, cells: int) -> list[Row]:
    """One row per way; the floor first."""
    ways: dict[str, Callable[[Path, int], list[str]]] = {
        "floor: xargs -P2": xargs,
        "snakemake, plain shell rules": plain,
        "submitit, local executor": submitit,
        "quantgrid, an interpreter a job": lambda at, n: quantgrid(at, n, platform="cold"),
        "quantgrid, a warm interpreter": lambda at, n: quantgrid(at, n, platform="local"),
    }
    rows = []
    for number, (way, prepare) in enumerate(ways.items()):
        at = folder / str(number)
        trivial.lay(at)
        cpu_s, wall_s = cost(prepare(at, cells), at)
        rows.append(Row(way, cpu_s / cells * 1e3, wall_s / cells * 1e3))
    return rows


def cost(command: list[str], cwd: Path) -> tuple[float, float]:
    """CPU seconds of a command and of all that it started, and wall seconds."""
    before, begin = trivial.cpu_s(), time.monotonic()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    done = subprocess.run(command, cwd=cwd, stderr=subprocess.PIPE, check=False, **quiet)
    wall_s = time.monotonic() - begin
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    with suppress(ChildProcessError):  # orphans come to this process: servers are counted too
        while True:
            os.wait()
    return trivial.cpu_s() - before, wall_s


# -- ways -----------------------------------------------------------------------------------------


def xargs(at: Path, cells: int) -> list[str]:
    """Two scripts at a time and nothing else."""
    (at / "cells").write_text("".join(f"out/{cell}.json\n" for cell in range(cells)))
    return ["xargs", "-a", "cells", "-n1", "-P2", sys.executable, "write.py"]


def plain(at: Path, cells: int) -> list[str]:
    """One Snakemake job per cell, without record, archive or receipt."""
    trivial.lay_snakefile(at, cells)
    return [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet", "all"]


def submitit(at: Path, cells: int) -> list[str]:
    """Two functions at a time, each pickled into a process of its own."""
    (at / "submit.py").write_text(SUBMITIT)
    return [sys.executable, "submit.py", str(cells)]


def quantgrid(at: Path, cells: int, *, platform: str) -> list[str]:
    """The pipeline on a working copy whose corpus and bases are there already."""
    lay(at, seeds=cells // FORMS)
    snakemake = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", "--cores", "2"]
    command = [*snakemake, "--quiet", "all", "--config", "grid=overhead", f"platform={platform}"]
    subprocess.run([*command, "select=method=none"], cwd=at, check=True, capture_output=True)
    return [*command, "select=method!=none"]


def lay(at: Path, *, seeds: int) -> None:
    """A working copy with light science, a grid of trivial cells and a platform without server."""
    copies.lay(at)
    shutil.copytree(LIGHT, at / "scripts", dirs_exist_ok=True)
    lines = (
        f"      - {{method: rtn, bits: {bits}, group: row, scale: noclip}}" for bits in range(2, 9)
    )
    text = GRID.format(seeds=", ".join(map(str, range(seeds))), forms="\n".join(lines))
    (at / "config/grids/overhead.yaml").write_text(text)
    warm = (at / "config/platforms/local.yaml").read_text()
    (at / "config/platforms/cold.yaml").write_text(warm.replace("warm: true", "warm: false"))


if __name__ == "__main__":
    main()
