"""Tokens from a corpus view into tensors.

Shape suffixes: B sequences, T positions; a sequence has context + 1 tokens.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quantlm.order import Order, Slice

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
        self._stop = 0
        self._next = Next(self._rows) if device.type == "cuda" else None

    def ahead(self, start: int, stop: int) -> None:
        """Announce the shards that steps `start` to `stop` need.

        Raises:
            ValueError: when they lie beyond the declared passes.
        """
        tokens, self._stop = self.tokens_per_step, stop
        self._view.ahead(self._order.shards(start * tokens, stop * tokens))

    def at(self, step: int) -> Tensor:
        """Tokens (B, T + 1) of one step, int64, on the device."""
        slices = self._order.windows(step * self.tokens_per_step, self._batch_sequences)
        for part in slices:
            self._view.charge(part.shard, len(part.starts) * self._context)
        if self._next is None:
            rows = torch.from_numpy(_gathered(self._view, slices, self._context))
            return rows.to(self._device)
        ahead = torch.from_numpy(self._next.take(step, self._stop))
        return ahead.pin_memory().to(self._device, non_blocking=True)

    def _rows(self, step: int) -> NDArray[np.int64]:
        """The windows of one step, which nobody has consumed yet."""
        slices = self._order.windows(step * self.tokens_per_step, self._batch_sequences)
        return _gathered(self._view, slices, self._context)


class Next:
    """Reads the batch of the next step while a device computes this one.

    A daemon thread does it, which no exit waits for; what it raises is raised where the batch is
    needed, and nothing is counted before.

    Args:
        read: The batch of a step.
    """

    def __init__(self, read: Callable[[int], NDArray[np.int64]]) -> None:
        self._read = read
        self._waiting: dict[int, Future[NDArray[np.int64]]] = {}

    def take(self, step: int, stop: int) -> NDArray[np.int64]:
        """The batch of `step`; that of the next one is begun, if it comes before `stop`."""
        now = self._waiting.pop(step, None) or self._begun(step)
        self._waiting = {step + 1: self._begun(step + 1)} if step + 1 < stop else {}
        return now.result()

    def _begun(self, step: int) -> "Future[NDArray[np.int64]]":
        found: Future[NDArray[np.int64]] = Future()
        threading.Thread(target=self._settle, args=(step, found), daemon=True).start()
        return found

    def _settle(self, step: int, found: "Future[NDArray[np.int64]]") -> None:
        try:
            found.set_result(self._read(step))
        except BaseException as error:  # noqa: BLE001 - raised by the one who needs the batch
            found.set_exception(error)


def calibration(view: CorpusView, context: int, count: int) -> Tensor:
    """Tokens (`count`, context + 1) for calibration: a pure function of the corpus.

    They are training tokens in the order of a seed of their own, the same for every trunk.
    """
    order = Order(view.shard_tokens, context=context, seed=CALIBRATION_SEED)
    view.ahead(order.shards(0, count * context))
    slices = order.windows(0, count)
    for part in slices:
        view.charge(part.shard, len(part.starts) * context)
    return torch.from_numpy(_gathered(view, slices, context))


def _gathered(view: CorpusView, slices: Iterable[Slice], context: int) -> NDArray[np.int64]:
    """The windows (B, context + 1) of some slices."""
    inside = np.arange(context + 1)
    rows = [view.shard(part.shard)[part.starts[:, None] + inside] for part in slices]
    return np.concatenate(rows).astype(np.int64)
