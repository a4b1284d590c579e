"""Tokens from a corpus view into tensors.

Shape suffixes: B sequences, T positions; a sequence has context + 1 tokens.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quantlm.order import Order

Tokens = NDArray[np.uint16]

CALIBRATION_SEED = 20_240_229


class CorpusView(Protocol):
    """What one process sees of a sealed corpus."""

    @property
    def shard_tokens(self) -> Mapping[str, int]:
        """Tokens of every training shard, in the order of the manifest."""

    def ahead(self, names: Iterable[str]) -> None:
        """Start to verify these shards, in this order, in the background."""

    def shard(self, name: str) -> Tokens:
        """The tokens of a shard; waits until they are verified."""

    def validation(self) -> Tokens:
        """The tokens of the validation shard."""

    def charge(self, name: str, tokens: int) -> None:
        """Count consumed tokens; refuses beyond the pass contract."""

    def receipt(self) -> Mapping[str, Any]:
        """What was seen, verified and consumed."""

    def seen(self) -> Mapping[str, Any]:
        """What the receipt rests on, as JSON, for another process to go on."""

    def take_up(self, seen: Mapping[str, Any]) -> None:
        """Count what the process saw from whose state this one goes on."""


class Batches:
    """The batches of a trunk by step: batch n holds the windows after n batches of tokens."""

    def __init__(
        self,
        view: CorpusView,
        order: Order,
        *,
        context: int,
        batch_sequences: int,
        device: torch.device,
    ) -> None:
        self._view, self._order = view, order
        self._context, self._batch_sequences, self._device = context, batch_sequences, device
        self.tokens_per_step = context * batch_sequences

    def ahead(self, start: int, stop: int) -> None:
        """Announce the shards that steps `start` to `stop` need.

        Raises:
            ValueError: when they lie beyond the declared passes.
        """
        tokens = self.tokens_per_step
        self._view.ahead(self._order.shards(start * tokens, stop * tokens))

    def at(self, step: int) -> Tensor:
        """Tokens (B, T + 1) of one step, int64, on the device."""
        position = step * self.tokens_per_step
        rows = _read(self._view, self._order, position, self._batch_sequences, self._context)
        return torch.from_numpy(rows).to(self._device)


def calibration(view: CorpusView, context: int, count: int) -> Tensor:
    """Tokens (`count`, context + 1) for calibration: a pure function of the corpus.

    They are training tokens in the order of a seed of their own, the same for every trunk.
    """
    order = Order(view.shard_tokens, context=context, seed=CALIBRATION_SEED)
    view.ahead(order.shards(0, count * context))
    return torch.from_numpy(_read(view, order, 0, count, context))


def _read(
    view: CorpusView, order: Order, position: int, count: int, context: int
) -> NDArray[np.int64]:
    """Windows (`count`, context + 1), charged to the view."""
    inside = np.arange(context + 1)
    rows = []
    for part in order.windows(position, count):
        view.charge(part.shard, len(part.starts) * context)
        rows.append(view.shard(part.shard)[part.starts[:, None] + inside])
    return np.concatenate(rows).astype(np.int64)
