"""What a GPU does with n30 and n100: tokens a second, its share of the peak, and what a save costs.

The figures are printed (`pytest -s --nightly -m gpu`); bars are far below what is planned, so that
only something broken misses them.
"""

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memory_corpus import MemoryView, trunk
from quantgrid.costs import training_flops
from quantgrid.load import load_grid, load_model, load_platform
from quantgrid.probing import run
from quantgrid.spec import resolved
from quantlm import environment, schedule
from quantlm.checkpoint import TrainingState
from quantlm.loop import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.nightly, pytest.mark.timeout(900)]

PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "4090": 165.0}
"""Dense bfloat16, of NVIDIA's data sheets."""
LEAST_MFU = 0.05
MOST_STALL_S = 2.0
STEPS = 8


def _view(steps: int, tokens_per_step: int, vocabulary: int) -> MemoryView:
    source = np.random.default_rng(0)
    tokens = source.integers(vocabulary, size=(steps + 1) * tokens_per_step, dtype=np.uint16)
    return MemoryView({"a": tokens}, tokens[:4096])


def _trainer(root: Path, name: str, **changes: Any) -> tuple[Trainer, TrainingState]:
    model = load_model(root, name)
    view = _view(2 * STEPS, model.tokens_per_step, model.vocab_size)
    device = environment.prepare("cuda", 1)
    trainer = Trainer.start(trunk(resolved(model) | changes), view, device)
    return trainer, TrainingState(trainer, view)


def _seconds(trainer: Trainer) -> list[float]:
    """Of each step; the first two set things up and do not count (QU 6)."""
    found, rate = [], schedule.trunk_rate(1e-3, 1)
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        trainer.run(trainer.step + 1, rate)
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return found[2:]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["n30", "n100"])
def test_training_reaches_its_share_of_the_peak(root: Path, name: str, *, compiled: bool) -> None:
    """Tokens a second, and operations against the peak of the device."""
    trainer, _ = _trainer(root, name, compiled=compiled)

    step_s = statistics.median(_seconds(trainer))

    tokens_per_s = trainer.tokens_per_step / step_s
    tflops = training_flops(load_model(root, name)) * tokens_per_s / 1e12
    device = torch.cuda.get_device_name()
    peak = next((each for key, each in PEAK_TFLOPS.items() if key in device), None)
    mfu = tflops / peak if peak else None
    print(f"{name} compiled={compiled} on {device}: {tokens_per_s:,.0f} tokens/s, MFU {mfu}")
    assert mfu is None or mfu > LEAST_MFU


@pytest.mark.parametrize("name", ["n30", "n100"])
def test_saving_stops_training_for_moments(root: Path, name: str) -> None:
    """The stall is the copy off the device; hashing and writing happen beside the training."""
    trainer, state = _trainer(root, name)
    trainer.run(1, schedule.trunk_rate(1e-3, 1))
    state.snapshot({})
    begin = time.perf_counter()

    state.snapshot({})

    stall_s = time.perf_counter() - begin
    print(f"{name}: a save of {state.size_bytes:,} bytes stalls {stall_s:.3f} s")
    assert stall_s < MOST_STALL_S


def test_probe_measures_n30_by_the_real_scripts(root: Path, tmp_path: Path) -> None:
    """What a clearance rests on: tokens a second through runner, corpus, loop and watch."""
    cell = next(c for c in load_grid(root, "paper").cells if c.trunk.model.name == "n30")
    platform = load_platform(root, "paid-here")

    found = run(root, tmp_path, cell, replace(platform, device="cuda"))

    print(f"probe of n30: {found['tokens_per_s']:,} tokens/s, {found['seconds']}")
    assert found["tokens_per_s"] > 10_000
