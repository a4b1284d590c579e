"""Kills a whole run, controller and all it started, at a time or at a named publication."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from forked import Forked
from working_copy import GRID, WorkingCopy

_HOOK = """
import os, signal, sys

_STEP = os.environ.get("QG_TEST_KILL_AT", "")
_TOKEN = os.environ.get("QG_TEST_KILL_TOKEN", "")


def _kill_at(event, arguments):
    if event in ("os.rename", "os.link") and _STEP and _STEP in str(arguments[1]):
        try:
            os.unlink(_TOKEN)
        except FileNotFoundError:
            return
        os.killpg(int(os.environ["QG_TEST_KILL_GROUP"]), 9)


if _STEP:
    os.environ.setdefault("QG_TEST_KILL_GROUP", str(os.getpgid(0)))  # first, in the controller
    sys.addaudithook(_kill_at)
"""


@dataclass(frozen=True)
class Killer:
    """Runs a grid in a working copy and kills it with SIGKILL, as a power cut would.

    Args:
        copy: The working copy.
        grid: The grid.
        targets: What is asked for; by default everything, the page too.
    """

    copy: WorkingCopy
    grid: str = GRID
    targets: tuple[str, ...] = ()

    def at_time(self, after_s: float) -> bool:
        """Start, kill everything after some seconds; whether it was still running."""
        process = self._start({})
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            self._kill(process)
            return True
        return False

    def at_step(self, step: str, scratch: Path) -> bool:
        """Start, kill everything just before a file whose path contains `step` is published."""
        scratch.mkdir(exist_ok=True)
        (scratch / "sitecustomize.py").write_text(_HOOK)
        token = scratch / "token"
        token.touch()
        process = self._start(
            {
                "PYTHONPATH": str(scratch),
                "QG_TEST_KILL_AT": step,
                "QG_TEST_KILL_TOKEN": str(token),
            }
        )
        code = process.wait(timeout=200)
        self._kill(process)
        return code == -signal.SIGKILL

    def _start(self, environment: dict[str, str]) -> Forked:
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local"]
        with (self.copy / "killed.log").open("ab") as log:
            return Forked(
                [*command, *self.targets, "--config", f"grid={self.grid}"],
                cwd=self.copy.root,
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
                leads="group",
            )

    def _kill(self, process: Forked) -> None:
        """Kill the group and every descendant, then wait until all are gone."""
        known = _descendants(process.pid)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=180)
        known += [other for other in psutil.process_iter() if _works_in(other, self.copy.root)]
        for other in known:
            if other.is_running():
                other.kill()
        _, alive = psutil.wait_procs(known, timeout=180)
        assert not alive, f"still running after SIGKILL: {alive}"


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _works_in(process: psutil.Process, root: Path) -> bool:
    try:
        return process.pid != os.getpid() and Path(process.cwd()).is_relative_to(root)
    except (psutil.Error, OSError):
        return False


def times(seed: int, count: int, longest_s: float) -> list[float]:
    """Uniform times for kills, from a seed that a failing test prints."""
    number = random.Random(seed)
    return [number.uniform(0, longest_s) for _ in range(count)]


def seed_of_today() -> int:
    """A seed for this run; `QG_TEST_SEED` repeats an earlier one."""
    return int(os.environ.get("QG_TEST_SEED", time.time_ns() % 1_000_000))
