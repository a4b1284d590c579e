"""What a cell costs on SLURM beyond its own work: 60 cells that do nothing, on one real cluster.

    python bench/slurm.py [--json] [--cells 60] [--stock-cells 12]

The cluster of the tests (two nodes of four cores on this machine) serves every way in turn.  CPU is
that of the submitting side and of all that ran in the jobs, daemons excluded; the floor submits the
bare script with sbatch and looks with squeue.  The stock plugin is measured on fewer cells, since
each takes it many times as long.
"""

import argparse
import json
import os
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

sys.path.insert(0, str(copies.PROJECT / "tests"))
from slurm_cluster import Cluster, missing, start_cluster

AT_A_TIME = 8

SUBMITIT = f"""
import sys
import submitit
{trivial.SUBMITTED}
executor = submitit.SlurmExecutor(folder="logs")
executor.update_parameters(time=5, mem="100MB", cpus_per_task=1)
waiting, cells = [], int(sys.argv[1])
for cell in range(cells):
    waiting.append(executor.submit(write, f"out/{{cell}}.json"))
for job in waiting:
    job.result()
"""
FLOOR = """
import subprocess, sys, time
for cell in range(int(sys.argv[1])):
    line = f"{sys.executable} {sys.argv[2]} out/{cell}.json"
    subprocess.run(["sbatch", "--quiet", "--time=5", "--mem=100M", "--output=/dev/null",
                    "--job-name=floor", f"--wrap=srun {line}"], check=True)
while subprocess.run(["squeue", "-h", "-n", "floor"], capture_output=True).stdout:
    time.sleep(1)
"""


@dataclass(frozen=True)
class Row:
    """What one way cost per cell."""

    way: str
    cells: int
    cpu_ms: float
    wall_ms: float


def measure(way: str, cells: int, cluster: Cluster, act: Callable[[Path, int], list[str]]) -> Row:
    """Run one way in a folder of its own and count what it took."""
    with tempfile.TemporaryDirectory(prefix="bench-slurm-") as name:
        folder = Path(name)
        trivial.lay(folder)
        command = act(folder, cells)
        before, begin_s = _cpu_s(), time.monotonic()
        environment = {**os.environ, **cluster.environment_with_srun}
        with (folder / "said").open("wb") as said:
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=said, stderr=said, check=False
            )
        wall_s = time.monotonic() - begin_s
        assert done.returncode == 0, (folder / "said").read_text()[-3000:]
        assert len(list((folder / "out").iterdir())) == cells
        cluster.clear()
        used_s = _cpu_s() - before
    return Row(way, cells, round(1000 * used_s / cells), round(1000 * wall_s / cells))


def floor(folder: Path, cells: int) -> list[str]:
    """sbatch, srun, the script."""
    return [sys.executable, "-c", FLOOR, str(cells), str(folder / "write.py")]


def submitit(_: Path, cells: int) -> list[str]:
    """A function pickled, unpickled in the job, its result read back."""
    return [sys.executable, "-c", SUBMITIT, str(cells)]


def snakemake(executor: str, *options: str) -> Callable[[Path, int], list[str]]:
    """A plain Snakefile of a rule for each cell."""

    def act(folder: Path, cells: int) -> list[str]:
        trivial.lay_snakefile(folder, cells)
        asked = ["--default-resources", "tmpdir=None", "mem_mb=100", "runtime=5"]
        common = ["--jobs", str(cells), "--scheduler", "greedy", "--quiet", "all", *asked]
        program = [sys.executable, "-m", "snakemake", "--executor", executor]
        return [*program, *options, *common]

    return act


def _cpu_s() -> float:
    """CPU of all children that ended; orphans of nodes come here, and are waited for."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return trivial.cpu_s()


def main() -> int:
    """Measure every way, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--stock-cells", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if missing():
        print(f"not measured: {', '.join(missing())} not installed (.ci/steps/15-slurm)")
        return 0
    trivial.adopt_orphans()
    cluster = start_cluster()
    try:
        ways: list[tuple[str, int, Callable[[Path, int], list[str]]]] = [
            ("sbatch and srun (the floor)", options.cells, floor),
            ("submitit, SlurmExecutor", options.cells, submitit),
            ("labslurm", options.cells, snakemake("labslurm", "--labslurm-ask-s", "5")),
        ]
        if options.stock_cells:
            quick = ["--slurm-init-seconds-before-status-checks", "1", "--slurm-no-account"]
            stock = snakemake("slurm", *quick)
            ways.append(("snakemake-executor-plugin-slurm", options.stock_cells, stock))
        rows = [measure(way, cells, cluster, act) for way, cells, act in ways]
    finally:
        cluster.close()
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    print("| way | cells | CPU ms a cell | over the floor | wall ms a cell |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        over = row.cpu_ms - rows[0].cpu_ms
        print(f"| {row.way} | {row.cells} | {row.cpu_ms:.0f} | {over:.0f} | {row.wall_ms:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
