"""Evaluations during a training: at steps that nothing moves, of text that nothing trains on."""

import numpy as np
import torch

from memory_corpus import TINY, counting, trunk
from quantlm import schedule
from quantlm.held_out import HeldOut, spread
from quantlm.loop import Trainer, Unwatched

CPU = torch.device("cpu")
RATE = schedule.trunk_rate(2e-3, 4)


class _Looking(Unwatched):
    """Evaluates after every `every` steps."""

    def __init__(self, held_out: HeldOut, every: int) -> None:
        self.held_out, self.every = held_out, every
        self.heard: list[tuple[int, int, int]] = []
        self.looks: list[tuple[int, list[float]]] = []

    def is_due(self, step: int) -> bool:
        return step % self.every == 0

    def steps(self, last: int, losses: object, norms: object) -> None:
        self.heard.append((last, len(losses), len(norms)))  # type: ignore[arg-type]

    def look(self, step: int) -> None:
        self.looks.append((step, self.held_out.losses()))


def _trained(every: int | None) -> tuple[Trainer, _Looking | None]:
    view = counting()
    trainer = Trainer.start(trunk(TINY), view, CPU)
    if every is None:
        trainer.run(24, RATE)
        return trainer, None
    watcher = _Looking(HeldOut.of(trainer, view, TINY), every)
    trainer.run(24, RATE, watcher=watcher)
    return trainer, watcher


def test_training_is_the_same_when_it_is_evaluated() -> None:
    """Looking changes no bit: neither a loss nor a weight nor a moment."""
    plain, _ = _trained(None)
    looked, watcher = _trained(3)

    assert watcher is not None
    assert len(watcher.looks) == 8
    assert looked.losses == plain.losses
    for one, other in zip(looked.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(
            looked.optimiser.state[one]["exp_avg"], plain.optimiser.state[other]["exp_avg"]
        )


def test_watcher_hears_every_step_once_when_it_looks_in_between() -> None:
    """Losses and norms of all steps, in order, before each look."""
    _, watcher = _trained(7)

    assert watcher is not None
    assert watcher.heard == [(7, 7, 7), (14, 7, 7), (21, 7, 7), (24, 3, 3)]
    assert [step for step, _ in watcher.looks] == [7, 14, 21]
    assert watcher.looks[-1][1] < watcher.looks[0][1]


def test_evaluations_are_due_at_the_same_steps_when_resumed() -> None:
    """A function of the steps alone: asked from anywhere, the same answer; rarer as it goes on."""
    trainer, view = Trainer.start(trunk(TINY), counting(), CPU), counting()
    whole = HeldOut.of(trainer, view, TINY)
    due = [step for step in range(1, 60_000) if whole.is_due(step)]
    resumed = HeldOut.of(trainer, view, TINY)

    assert due[:2] == [whole.every, 2 * whole.every] == [256, 512]
    assert [step for step in range(30_001, 60_000) if resumed.is_due(step)] == [
        step for step in due if step > 30_000
    ]
    assert due[-1] - due[-2] > 500


def test_evaluations_cost_four_hundredths_when_forward_is_a_third_of_a_step() -> None:
    """The share of sequences that are evaluated is bounded for every batch, and falls."""
    trainer = Trainer.start(trunk(TINY), counting(), CPU)
    for batch in (1, 4, 32, 256):
        held_out = HeldOut(trainer, counting(), context=8, batch_sequences=batch)

        assert held_out.sequences >= 128
        assert held_out.sequences / (held_out.every * batch) / 3 <= 0.042
        last = 300 * held_out.every
        looks = sum(held_out.is_due(step) for step in range(1, last + 1))
        assert looks * held_out.sequences / (last * batch) / 3 <= 0.021


def test_windows_are_spread_when_the_shard_is_long() -> None:
    """Far apart, none twice, all inside; a short shard gives what it has, an empty one nothing."""
    tokens = np.arange(1001, dtype=np.uint16)

    starts = spread(tokens, 10, 20)[:, 0].tolist()

    assert starts == list(range(0, 1000, 50))
    assert spread(tokens, 10, 1000).shape == (100, 11)
    assert int(spread(tokens, 10, 1000).max()) == 1000
    assert spread(tokens[:5], 10, 20).shape == (0, 11)
