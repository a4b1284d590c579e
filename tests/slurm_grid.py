"""A working copy whose grid runs on the cluster of the tests, and its controller as a process."""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from forked import Forked
from slurm_cluster import BOUND_S, Cluster
from working_copy import NONE, RTN, Outcome, WorkingCopy, grid_file, lay, table

TWO = "two"
"""The grid of two cells; nothing asks for its page."""
SMALL = ("tmpdir=None", "mem_mb=200", "runtime=10")
"""What a job of a test asks for: the nodes pretend to have 6,000 MB and four cores each."""


def laid(root: Path, *, grace_s: int = 5, sealed: WorkingCopy | None = None) -> WorkingCopy:
    """A working copy with a grid of two cells, for a cluster whose KillWait is 5 s."""
    copy = lay(root, light=True, sealed=sealed)
    (copy / f"config/grids/{TWO}.yaml").write_text(grid_file(NONE, RTN))
    copy.edit("config/platforms/slurm.yaml", "grace_s: 30", f"grace_s: {grace_s}")
    return copy


def gated(copy: WorkingCopy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no trunk end before the file exists that this gives: a test says when, and no clock."""
    gate = copy / "gate"
    monkeypatch.setenv("LIGHT_WORK_S", "1")
    monkeypatch.setenv("LIGHT_UNTIL", str(gate))
    return gate


def command(*arguments: str, grid: str = TWO, resources: tuple[str, ...] = SMALL) -> list[str]:
    """Snakemake with the profile of the lab host, and the haste of a test."""
    program = [sys.executable, "-m", "snakemake", "--profile", "profiles/slurm"]
    program += [table(TWO)] if grid == TWO else []
    haste = ["--labslurm-ask-s", "1", "--latency-wait", "20", "--jobs", "8"]
    asked = ["--default-resources", *resources] if resources else []
    return [*program, *haste, *asked, *arguments, "--config", f"grid={grid}"]


def stock_command(grid: str) -> list[str]:
    """The same with the stock plugin instead of ours, as the guide has it, and its own haste."""
    haste = ["--slurm-init-seconds-before-status-checks", "1", "--slurm-no-account"]
    executor = ["--executor", "slurm", "--retries", "8"]
    return command(*executor, *haste, grid=grid, resources=(*SMALL, "slurm_partition=gpu"))


def run(
    copy: WorkingCopy,
    *arguments: str,
    code: int | None = 0,
    timeout_s: float = 560,
    **how: Any,
) -> Outcome:
    """Make the grid on the cluster."""
    return copy.call(*command(*arguments, **how), code=code, timeout_s=timeout_s)


@contextmanager
def controller(copy: WorkingCopy, *arguments: str, **how: Any) -> Iterator[Forked]:
    """A controller that a test may kill; it is gone at the end of the block."""
    with (copy / "said").open("wb") as said:
        process = Forked(
            command(*arguments, **how),
            cwd=copy.root,
            env=os.environ,
            stdout=said,
            stderr=said,
            leads="group",
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=BOUND_S)


def until(holds: Callable[[], object], copy: WorkingCopy, within_s: float = BOUND_S) -> None:
    """Wait until something holds; fail with what the controller said otherwise."""
    end_s = time.monotonic() + within_s
    while not holds():
        said = (copy / "said").read_text()[-3000:] if (copy / "said").exists() else ""
        assert time.monotonic() < end_s, said
        time.sleep(0.05)


def starts(cluster: Cluster, copy: WorkingCopy) -> Counter[str]:
    """How often each output of a working copy was submitted, from SLURM's own accounting."""
    name = f"quantgrid-{(copy / 'work/copy.id').read_text()[:12]}"
    lines = cluster.call(
        *("sacct", "-X", "-n", "-P", "-a", "-S", "now-1hour", f"--name={name}", "-o", "Comment"),
        code=None,  # accounting may be starting
    ).split()
    return Counter(line.partition("#")[0].partition(".")[0] for line in lines)


def links(copy: WorkingCopy) -> list[dict[str, Any]]:
    """The links of the newest trunk record."""
    paths = sorted((copy / "archive/trunks").glob("*/*/*/record.json"))
    found: list[dict[str, Any]] = json.loads(paths[-1].read_bytes())["links"]
    return found
