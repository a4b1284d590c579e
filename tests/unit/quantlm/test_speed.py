"""What makes training faster changes nothing but the last bits, and only where a spec asks."""

import threading
from typing import Any

import numpy as np
import pytest
import torch

from memory_corpus import TINY, counting, form, trunk
from quantlm import environment, schedule
from quantlm.data import Next
from quantlm.loop import Trainer
from quantlm.methods import lsq, qat

CPU = torch.device("cpu")
RATE = schedule.trunk_rate(2e-3, 4)


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    environment.prepare("cpu", 1)


def _trained(steps: int = 40, device: torch.device = CPU, **changes: Any) -> Trainer:
    trainer = Trainer.start(trunk(TINY | changes), counting(), device)
    trainer.run(steps, RATE)
    return trainer


def test_losses_are_those_of_the_whole_batch_when_it_comes_in_parts() -> None:
    """Gradients are added up: only the order of the sums differs."""
    whole, parts = _trained(), _trained(microbatch_sequences=1)

    assert parts.losses == pytest.approx(whole.losses, abs=1e-4)
    assert parts.losses != whole.losses
    assert _trained(microbatch_sequences=4).losses == whole.losses


def test_products_are_rounded_when_a_spec_asks_for_bfloat16() -> None:
    """Losses are near those of float32 and not the same; weights and logits stay float32."""
    exact, rounded = _trained(), _trained(precision="bfloat16")

    assert rounded.losses == pytest.approx(exact.losses, abs=0.03)
    assert rounded.losses != exact.losses
    assert {weight.dtype for weight in rounded.model.parameters()} == {torch.float32}
    assert rounded.logits(torch.zeros(1, 8, dtype=torch.int64)).dtype == torch.float32


@pytest.mark.parametrize("method", [qat, lsq])
def test_trained_methods_learn_in_bfloat16(method: Any) -> None:
    """Rounded weights go through the same products."""
    settings = form(method.__name__.rpartition(".")[2], 4, "row", "noclip")
    spec = trunk(TINY | {"precision": "bfloat16"})
    trainer = Trainer.start(spec, counting(), CPU, forward=method.forward(settings))
    method.extend(trainer, settings)

    losses = trainer.run(60, RATE)

    assert losses[-1] < losses[0] - 0.3


def test_nothing_is_compiled_on_a_cpu() -> None:
    """A spec that asks for a compiled program trains the same bits without a GPU, at once."""
    assert _trained(5, compiled=True).losses == _trained(5).losses


def test_next_batch_is_read_meanwhile_and_never_beyond_the_end() -> None:
    """While one batch is in use the following one is read; the last one has none after it."""
    seen, read = [], threading.Event()

    def batch(step: int) -> np.ndarray:
        seen.append(step)
        if step == 1:
            read.set()
        return np.full(1, step)

    ahead = Next(batch)

    assert ahead.take(0, 3).item() == 0
    assert read.wait(180)
    assert [ahead.take(step, 3).item() for step in (1, 2)] == [1, 2]
    assert sorted(seen) == [0, 1, 2]


def test_failed_read_is_raised_when_its_batch_is_needed() -> None:
    """What the reader refuses ends the training at the step that needs it, not before."""

    def batch(step: int) -> np.ndarray:
        if step == 1:
            raise ValueError("not what was sealed")
        return np.full(1, step)

    ahead = Next(batch)

    assert ahead.take(0, 3).item() == 0
    with pytest.raises(ValueError, match="not what was sealed"):
        ahead.take(1, 3)


@pytest.mark.gpu
def test_training_on_a_gpu_is_the_same_when_repeated() -> None:
    """Deterministic mode: two trainings on one device give the same bits, read ahead or not."""
    device = environment.prepare("cuda", 1)

    assert _trained(device=device).losses == _trained(device=device).losses


@pytest.mark.gpu
def test_compiled_training_is_near_the_other_one_on_a_gpu() -> None:
    """A compiled program in bfloat16 learns what the plain one learns."""
    device = environment.prepare("cuda", 1)
    fast = _trained(device=device, precision="bfloat16", compiled=True)

    assert fast.losses == pytest.approx(_trained(device=device).losses, abs=0.05)
