"""Evaluations during a training: a fixed set of text that it never sees, at fixed steps.

Which steps and which sequences is a function of model and corpus alone, so that an interruption or
a longer budget changes none.  Shape suffixes: B sequences, T positions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from quantlm.data import CorpusView, Tokens
from quantlm.loop import Trainer

LEAST_SEQUENCES = 128
"""Fewer delay the alarm of a gap by an eighth of a run and more (QU 7, lesson 3; decision 0031)."""
STEPS_PER_SEQUENCE = 8
"""Sequences trained on for one that is evaluated: forward alone is a third of a step, so 4 %."""
_GROWTH = 50
"""Evaluations become rarer when a fiftieth of the steps done is longer than the interval."""


class HeldOut:
    """Evaluates a trainer on windows that are spread over the validation shard.

    Spread, because neighbours are of one document and tell little more than one of them.

    Args:
        trainer: Evaluated by its own forward pass; nothing of it changes.
        view: Has the validation shard, which is read at the first evaluation.
        context: Positions of a window.
        batch_sequences: Sequences of a step.
    """

    def __init__(
        self, trainer: Trainer, view: CorpusView, *, context: int, batch_sequences: int
    ) -> None:
        self._trainer, self._view, self._context = trainer, view, context
        self._batch_sequences = batch_sequences
        self.sequences = max(LEAST_SEQUENCES, 2 * batch_sequences)
        self.every = -(-STEPS_PER_SEQUENCE * self.sequences // batch_sequences)
        self._next = self.every
        self._windows_BT: Tensor | None = None

    @classmethod
    def of(cls, trainer: Trainer, view: CorpusView, model: Mapping[str, Any]) -> Self:
        """With the sizes of a resolved model spec."""
        sizes = {name: model[name] for name in ("context", "batch_sequences")}
        return cls(trainer, view, **sizes)

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step consumes."""
        return self._batch_sequences * self._context

    @property
    def tokens_between(self) -> int:
        """Tokens that are trained on between the first two evaluations."""
        return self.every * self.tokens_per_step

    def is_due(self, step: int) -> bool:
        """Whether an evaluation belongs after so many steps; asked for rising steps."""
        while self._next < step:
            self._next += max(self.every, self._next // _GROWTH)
        return self._next == step

    @torch.no_grad()
    def losses(self) -> list[float]:
        """Mean loss of each sequence in nats per token; empty when the shard is too short."""
        if self._windows_BT is None:
            self._windows_BT = spread(self._view.validation(), self._context, self.sequences)
        found: list[float] = []
        for part_BT in torch.split(self._windows_BT, self._batch_sequences):
            found += self._each(part_BT.to(self._trainer.device))
        return found

    def _each(self, tokens_BT: Tensor) -> Sequence[float]:
        logits_BTV = self._trainer.logits(tokens_BT[:, :-1])
        losses_BT = functional.cross_entropy(
            logits_BTV.transpose(1, 2), tokens_BT[:, 1:], reduction="none"
        )
        means: list[float] = losses_BT.mean(1).tolist()
        return means


def spread(tokens: Tokens, context: int, sequences: int) -> Tensor:
    """At most `sequences` windows (B, context + 1), evenly over a shard, none overlapping."""
    available = max(len(tokens) - 1, 0) // context
    count = min(sequences, available)
    starts = np.arange(count) * available // max(count, 1) * context
    windows = tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return torch.from_numpy(windows)
