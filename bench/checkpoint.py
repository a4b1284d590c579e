"""What a checkpoint costs: stall and total beside torch.save and DCP, and what interruptions waste.

    python bench/checkpoint.py [--json] [--sizes 25,249,1000] [--repeats 5]

The state is that of a real model after one step of AdamW: weights and two moments, float32.  Ways
take turns, so that they share the machine's moods; figures are medians.  `stall` is how long the
training thread waits; `total` ends when the file is durable (fsync and rename, where a way does
them).  Only quantgrid's total includes a sha256 of every byte.

`lost` is what training really loses to one save in the background: the stall, and what the steps
meanwhile took beyond their usual time.  Waste is simulated: interruptions come at random, every
four hours in the mean; work since the newest checkpoint is done again; a restart takes 30 s.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from quantgrid.checkpoint.cadence import interval_s
from quantgrid.checkpoint.folder import Folder
from quantgrid.checkpoint.writer import Writer
from quantlm import environment, schedule
from quantlm.checkpoint import TrainingState
from quantlm.loop import Trainer

INTERRUPTION_S = 4 * 3600.0
RESTART_S = 30.0
DAYS = 2000
FIXED_S = (30.0, 120.0, 600.0, 3600.0)
WIDTHS = {25: (256, 2, 2048), 249: (768, 2, 8192), 1000: (1664, 2, 8192)}
"""Megabytes of state: width, layers and vocabulary of a model that has about as much."""


@dataclass(frozen=True)
class Row:
    """What one way costs at one size, in milliseconds; `ratio` is the stall beside DCP's."""

    size_mb: float
    way: str
    stall_ms: float
    total_ms: float
    ratio: float = 0.0


@dataclass(frozen=True)
class Overhead:
    """What training loses at the interval that follows from the cost that the keeper accounts."""

    size_mb: float
    accounted_ms: float
    lost_ms: float
    interval_s: float
    percent: float


@dataclass(frozen=True)
class Waste:
    """Time not spent on progress, in percent, at the computed interval and at fixed ones."""

    size_mb: float
    computed_s: float
    computed: float
    best_s: float
    best: float
    fixed: dict[str, float]


class Ramp:
    """A corpus view over a few tokens."""

    def __init__(self) -> None:
        self.shard_tokens = {"shard": 20_001}
        self._tokens = (np.arange(20_001) % 251).astype(np.uint16)

    def ahead(self, names: object) -> None:
        """Nothing to verify."""

    def shard(self, _: str) -> Any:
        """The ramp."""
        return self._tokens

    def charge(self, name: str, tokens: int) -> None:
        """Nothing is counted."""

    def seen(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def trained(size_mb: int) -> tuple[Trainer, TrainingState]:
    """A model with about so much state, after one step."""
    width, layers, vocabulary = WIDTHS[size_mb]
    model = {
        "d_model": width,
        "num_layers": layers,
        "num_heads": width // 64,
        "d_ff": 3 * width,
        "vocab_size": vocabulary,
        "context": 16,
        "batch_sequences": 1,
        "learning_rate": 1e-4,
        "warmup_steps": 4,
        "tied": True,
        "rope_base": 10000.0,
        "norm_eps": 1e-6,
        "init_std": 0.02,
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "clip_norm": 1.0,
    }
    trunk = {"model": model, "seed": 0, "passes": 1, "unique_tokens": None}
    view: Any = Ramp()
    trainer = Trainer.start(trunk, view, torch.device("cpu"))
    trainer.run(1, RATE)
    return trainer, TrainingState(trainer, view)


RATE = schedule.trunk_rate(1e-4, 4)
Way = Callable[[Path], tuple[float, float]]


def ways(trainer: Trainer, state: TrainingState) -> dict[str, Way]:
    """Each way: saves into a folder, and returns its stall and its total in seconds."""
    whole = {"model": trainer.model.state_dict(), "optimiser": trainer.optimiser.state_dict()}
    stager = DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=True,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
    )
    return {
        "torch.save": lambda at: _timed(lambda: torch.save(whole, at / "s.pt")),
        "torch.save, fsync, rename": lambda at: _timed(lambda: _durably(whole, at)),
        "DCP save": lambda at: _timed(lambda: _dcp(whole, at)),
        "DCP async_save": lambda at: _async(whole, at, {}),
        "DCP async_save, staging kept": lambda at: _async(whole, at, {"async_stager": stager}),
        "quantgrid": lambda at: _ours(state, at)[:2],
    }


def _timed(save: Callable[[], object]) -> tuple[float, float]:
    begin = time.perf_counter()
    save()
    elapsed = time.perf_counter() - begin
    return elapsed, elapsed


def _dcp(whole: dict[str, Any], at: Path) -> None:
    dcp.save(whole, checkpoint_id=at / "d", no_dist=True)


def _durably(whole: dict[str, Any], at: Path) -> None:
    with (at / "s.part").open("wb") as file:
        torch.save(whole, file)
        file.flush()
        os.fsync(file.fileno())
    (at / "s.part").rename(at / "s.pt")


def _async(whole: dict[str, Any], at: Path, options: dict[str, Any]) -> tuple[float, float]:
    begin = time.perf_counter()
    future: Any = dcp.async_save(whole, checkpoint_id=at / "a", no_dist=True, **options)
    stall = time.perf_counter() - begin
    future.result()
    return stall, time.perf_counter() - begin


def _ours(state: TrainingState, at: Path, work: Callable[[], None] = lambda: None) -> Any:
    """Stall, total, and the processor time that the writer took."""
    folder = Folder(at, fingerprint="f", manifest=None)
    writer = Writer(folder, lambda *_: None)
    begin = time.perf_counter()
    parts = state.snapshot(folder.signed({}))
    writer.start(state.tokens, parts)
    stall = time.perf_counter() - begin
    while writer.is_busy():
        work()
        time.sleep(0)
    written = writer.join()
    assert written
    assert written.checkpoint
    return stall, time.perf_counter() - begin, written.cpu_s


def compared(size_mb: int, repeats: int, folder: Path) -> list[Row]:
    """One row per way; a first round warms up and is not counted."""
    trainer, state = trained(size_mb)
    real_mb = state.size_bytes / 1e6
    seen: dict[str, list[tuple[float, float]]] = {}
    saves = ways(trainer, state)  # made once: some of them keep memory between saves
    for turn in range(repeats + 1):
        for way, save in saves.items():
            with _fresh(folder) as at:
                times = save(at)
            if turn:
                seen.setdefault(way, []).append(times)
    stalls = {way: _middle_ms(stall for stall, _ in times) for way, times in seen.items()}
    totals = {way: _middle_ms(total for _, total in times) for way, times in seen.items()}
    peer = min(stall for way, stall in stalls.items() if "async" in way)
    return [Row(real_mb, way, stalls[way], totals[way], stalls[way] / peer) for way in seen]


def _middle_ms(seconds: Iterable[float]) -> float:
    return statistics.median(seconds) * 1e3


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    at = folder / "at"
    at.mkdir()
    try:
        yield at
    finally:
        shutil.rmtree(at)


def overhead(size_mb: int, repeats: int, folder: Path) -> Overhead:
    """Train while the writer works, and see what the steps lose."""
    trainer, state = trained(size_mb)
    usual: list[float] = []
    lost, accounted = [], []
    for turn in range(repeats + 1):
        usual += [_step_s(trainer) for _ in range(10)]
        steps: list[float] = []
        with _fresh(folder) as at:
            stall, _, cpu_s = _ours(state, at, lambda: steps.append(_step_s(trainer)))  # noqa: B023
        if turn:
            lost.append(stall + sum(steps) - len(steps) * statistics.median(usual[-20:]))
            accounted.append(stall + cpu_s)
    cost = statistics.median(accounted)
    every = interval_s(cost, INTERRUPTION_S)
    real = statistics.median(lost)
    percent = 100 * real / (every + real)
    return Overhead(state.size_bytes / 1e6, cost * 1e3, real * 1e3, every, percent)


def _step_s(trainer: Trainer) -> float:
    begin = time.perf_counter()
    trainer.run(trainer.step + 1, RATE)
    return time.perf_counter() - begin


def waste(size_mb: float, cost_s: float) -> Waste:
    """Compare the computed interval with fixed ones, and with the best one that a search finds."""
    computed_s = interval_s(cost_s, INTERRUPTION_S)
    candidates = [computed_s * 1.15**n for n in range(-12, 13)]
    tried = {every: wasted(every, cost_s) for every in candidates}
    best_s = min(tried, key=lambda every: tried[every])
    fixed = {f"{every:.0f} s": wasted(every, cost_s) for every in FIXED_S}
    return Waste(size_mb, computed_s, tried[computed_s], best_s, tried[best_s], fixed)


def wasted(every_s: float, cost_s: float) -> float:
    """Percent of the time that is no progress, over many simulated days."""
    source = random.Random(0)
    useful = total = 0.0
    while total < DAYS * 86400:
        until = source.expovariate(1 / INTERRUPTION_S)
        done = int(until / (every_s + cost_s))
        useful += done * every_s
        total += until + RESTART_S
    return 100 * (1 - useful / total)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sizes", default="25,249,1000", help=f"of {', '.join(map(str, WIDTHS))}")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    environment.prepare("cpu", 1)
    rows: list[Row] = []
    overheads: list[Overhead] = []
    with tempfile.TemporaryDirectory() as name:
        for size_mb in map(int, options.sizes.split(",")):
            rows += compared(size_mb, options.repeats, Path(name))
            overheads.append(overhead(size_mb, options.repeats, Path(name)))
    wastes = [waste(each.size_mb, each.accounted_ms / 1e3) for each in overheads]
    if options.json:
        tables = {"saves": rows, "overhead": overheads, "waste": wastes}
        print(json.dumps({name: [asdict(r) for r in t] for name, t in tables.items()}, indent=2))
        return
    show(rows, overheads, wastes)


def show(rows: list[Row], overheads: list[Overhead], wastes: list[Waste]) -> None:
    """Three tables."""
    print(f"{'MB':>6} {'way':<30} {'stall ms':>9} {'total ms':>9} {'stall / DCP async':>18}")
    for row in rows:
        print(
            f"{row.size_mb:>6.0f} {row.way:<30} {row.stall_ms:>9.1f} {row.total_ms:>9.1f} "
            f"{row.ratio:>18.2f}"
        )
    print(f"\n{'MB':>6} {'accounted ms':>13} {'lost ms':>9} {'interval s':>11} {'overhead %':>11}")
    for each in overheads:
        print(
            f"{each.size_mb:>6.0f} {each.accounted_ms:>13.1f} {each.lost_ms:>9.1f} "
            f"{each.interval_s:>11.1f} {each.percent:>11.2f}"
        )
    print(f"\n{'MB':>6} {'waste % at the computed interval':<34} {'at the best':<20} at fixed ones")
    for one in wastes:
        computed = f"{one.computed:.2f} at {one.computed_s:.0f} s"
        fixed = ", ".join(f"{percent:.2f} at {every}" for every, percent in one.fixed.items())
        print(f"{one.size_mb:>6.0f} {computed:<34} {one.best:.2f} at {one.best_s:<12.0f} {fixed}")


if __name__ == "__main__":
    main()
