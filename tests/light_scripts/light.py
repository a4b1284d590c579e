"""A science that costs nothing: files and losses are pure functions of the fingerprint.

The workflow tests put these scripts into a copy of the project, so that hundreds of cells run in
seconds; everything but the numbers is the real thing.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from quantgrid import atomic
from quantgrid.cell import Cell

WORK = {"rounds": 3}


def make(name: str) -> None:
    """Finish a stage with one small file, derived from the parents and the spec."""
    cell = Cell.from_environment()
    fail(name)
    work(cell)
    parents = sorted(
        (r, n, p.read_bytes()) for r, fs in cell.parents.items() for n, p in fs.items()
    )
    content = atomic.json_bytes([name, cell.fingerprint, [str(parent)[:80] for parent in parents]])
    atomic.publish(cell.out / f"{name}.json", content)
    size = dict.fromkeys(("weights", "quantised_weights", "packed_bytes", "other_bytes"), 8)
    size |= {"total_bytes": 16, "bits_per_weight": 4.0}
    cell.finish({"size": size, "train_loss": 2.0}, environment={"device": "cpu", "packages": {}})


def fail(name: str) -> None:
    """Fail as `LIGHT_FAIL` says: a stage and the statement that it executes."""
    stage, _, statement = os.environ.get("LIGHT_FAIL", "").partition(":")
    if stage == name:
        exec(statement, {})  # noqa: S102 - a test asks for it


def work(cell: Cell) -> None:
    """Work for `LIGHT_WORK_S` seconds in all links together, saving at each hundredth of it.

    `LIGHT_SAVES=no` is a script that never saves; `LIGHT_UNTIL` names a file without which the last
    step is not done, so that a test and no clock says when the work ends.
    """
    gate = Path(os.environ.get("LIGHT_UNTIL", os.devnull))
    total_s = float(os.environ.get("LIGHT_WORK_S", "0")) if cell.stage == "trunk" else 0.0
    saves = os.environ.get("LIGHT_SAVES") != "no"
    saved, stops = cell.state / "done", []
    if saves:
        signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
    step = int(saved.read_text()) if saved.exists() else 0
    while total_s and step < 100:
        time.sleep(total_s / 100)
        step += step < 99 or gate.exists()
        if saves:
            atomic.publish(saved, str(step).encode())
            told = {"tokens": step, "checkpoint": f"step-{step}", "saves": 1, "save_s": 0.001}
            atomic.publish_json(Path(os.environ["QG_LINK"]), told)
        if stops:
            sys.exit(75)


def evaluate() -> None:
    """Finish an evaluation with losses that depend on nothing but the fingerprint."""
    cell = Cell.from_environment()
    number = random.Random(cell.fingerprint)
    count = cell.spec["evaluation"]["sequences"]
    losses = [round(1 + number.random(), 6) for _ in range(count)]
    validation = {"id": "v", "sequences": count, "context": 64, "losses": losses}
    results = {"loss": sum(losses) / count, "kl": 0.0, "validation": validation}
    cell.finish(results, environment={"device": "cpu", "packages": {}})
