"""A grid with a program of its own in a folder, and the runner on it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quantgrid import layout, science
from quantgrid.archive import Archive
from quantgrid.archive.record import Record
from quantgrid.job import Job
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid
from quantgrid.own_script import OwnCell
from quantgrid.store.folder import FolderStore

PROJECT = Path(__file__).parents[1]
GRID = "mine"
BOUND_S = 180.0
RESULTS = {"json": "result.json"}

SUM = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--a", type=float)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
json.dump({"loss": given.a + given.seed}, open("result.json", "w"))
"""

COUNTS = """
import json, os, sys, time
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt.json")
step, trace = json.load(open(path)) if os.path.exists(path) else (0, [])
open("starts.txt", "a").write(f"{step}\\n")
print("starts at", step, flush=True)
while step < int(sys.argv[1]):
    step += 1
    trace.append((step * 7919) % 101)
    with open(path, "w") as file:
        json.dump([step, trace], file)
    time.sleep(0.05)
json.dump({"loss": sum(trace), "steps": step}, open("result.json", "w"))
"""
"""Saves in place at every step, and ends with a number that depends on each of them."""


@dataclass(frozen=True)
class OwnDesk:
    """A working copy that holds one program and one grid."""

    root: Path

    @classmethod
    def lay(
        cls, root: Path, program: str, block: Mapping[str, Any], files: Mapping[str, str] = {}
    ) -> "OwnDesk":
        """Lay `code/train.py`, other files beside it, and a grid of one block."""
        shutil.copytree(PROJECT / "config" / "schemas", root / "config" / "schemas")
        (root / "scripts").mkdir()
        shutil.copy(layout.script(PROJECT, "own"), layout.script(root, "own"))
        for name, text in {"train.py": program, **files}.items():
            path = root / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        desk = cls(root)
        desk.declare(block)
        return desk

    def declare(self, block: Mapping[str, Any], name: str = "line", **top: Any) -> None:
        """Write the grid; a block has `code/train.py` and a JSON result unless it says more."""
        full = {"script": "code/train.py", "results": RESULTS, **block}
        path = layout.section_file(self.root, "grid", GRID)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({**top, "blocks": {name: full}}, sort_keys=False))

    def cells(self) -> tuple[OwnCell, ...]:
        """The cells of the grid as it is now."""
        return load_grid(self.root, GRID).own

    def job(self, number: int = 0) -> Job:
        """The job of a cell."""
        lineage = trace(load_grid(self.root, GRID), Science(self.root))
        return lineage.job(lineage.grid.own[number])

    def fingerprints(self) -> list[str]:
        """Those of all cells, read as a new process would."""
        for kept in (science._tree, science._imports, science._module_digest):
            kept.cache_clear()
        lineage = trace(load_grid(self.root, GRID), Science(self.root))
        return [lineage.cells[cell.id].fingerprint for cell in lineage.grid.own]

    def start(self, job: Job, options: Sequence[str] = ()) -> "subprocess.Popen[str]":
        """Start the runner on a job, in a process group of its own."""
        places = ["--archive", "archive", "--root", str(self.root), "--volume", "volume"]
        receipt = f"receipts/{job.cell.replace('/', '-')}.json"
        command = [sys.executable, "-m", "quantgrid", "run", job.to_json(), "--receipt", receipt]
        return subprocess.Popen(
            [*command, *places, *options],
            cwd=self.root,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, job: Job | None = None, options: Sequence[str] = ()) -> tuple[int, str]:
        """Run a job to its end: exit code and what was said."""
        process = self.start(job or self.job(), options)
        try:
            text, _ = process.communicate(timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return process.returncode, text

    def record(self, job: Job | None = None) -> Record:
        """The record of a job, from the archive."""
        archive = Archive(FolderStore(self.root / "archive"))
        return archive.record((job or self.job()).last.record)

    def kept(self) -> list[Path]:
        """The lists of all checkpoints that are kept now."""
        return sorted((self.root / "volume").rglob(layout.OWN_KEPT_LIST))


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Wait for an event that another process causes."""
    end_s = time.monotonic() + BOUND_S
    while not happened():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(0.02)


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> str:
    """Send a signal to a runner (SIGKILL: to its whole session) and wait for its end."""
    if number is signal.SIGKILL:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    text, _ = process.communicate(timeout=BOUND_S)
    return text
