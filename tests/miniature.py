"""Real miniature trainings as the watch sees them: n0 on a whole corpus, or on one shard of it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from memory_corpus import MODEL, MemoryView, shakespeare, trunk
from quantlm import schedule
from quantlm.held_out import HeldOut
from quantlm.loop import Trainer, Unwatched

PASSES, SHARD_TOKENS = 30, 43_000
TOKENS_PER_STEP = 2048
STEPS = SHARD_TOKENS // 64 * 64 * PASSES // TOKENS_PER_STEP


class Seen(NamedTuple):
    """What a watch was told of a training.

    Args:
        losses: Of every step.
        norms: Of its gradient.
        looks: Steps of the evaluations, each with the loss of every fixed sequence.
    """

    losses: list[float]
    norms: list[float]
    looks: list[tuple[int, list[float]]]


def trained(*, seed: int, is_one_shard: bool, steps: int = STEPS) -> Seen:
    """Train n0 on all of Shakespeare once, or on 43,000 tokens of it again and again."""
    torch.set_num_threads(1)
    whole = shakespeare()
    shards = {name: whole.shard(name) for name in whole.shard_tokens}
    if is_one_shard:
        shards = {"shard": next(iter(shards.values()))[:SHARD_TOKENS]}
    view = MemoryView(shards, whole.validation())
    model = MODEL | {"init_std": 0.04}
    spec = trunk(model, seed=seed) | {"passes": PASSES if is_one_shard else 1}
    trainer = Trainer.start(spec, view, torch.device("cpu"))
    held_out = HeldOut.of(trainer, view, model)
    heard = _Recorder(held_out)
    trainer.run(steps, schedule.trunk_rate(2e-3, 20), watcher=heard)
    return Seen(heard.losses, heard.norms, heard.looks)


class _Recorder(Unwatched):
    """Keeps what it hears."""

    def __init__(self, held_out: HeldOut) -> None:
        self._held_out = held_out
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.looks: list[tuple[int, list[float]]] = []

    def is_due(self, step: int) -> bool:
        return self._held_out.is_due(step)

    def steps(self, _: int, losses: Sequence[float], norms: Sequence[float]) -> None:
        self.losses += losses
        self.norms += norms

    def look(self, step: int) -> None:
        self.looks.append((step, self._held_out.losses()))
