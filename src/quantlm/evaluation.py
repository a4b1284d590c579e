"""Measures of a model on a fixed validation set, sequence by sequence.

Losses are in nats per token.  Shape suffixes: B sequences, T positions, V vocabulary.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from quantlm.model import Transformer

TOKENS_AT_ONCE = 4096
"""Positions in a batch: fixed, because sums of floats depend on how they are batched."""


def validation_set(tokens: NDArray[np.uint16], *, context: int, sequences: int) -> Tensor:
    """The first `sequences` windows (B, context + 1) of a shard, at stride context.

    Raises:
        ValueError: when the shard is too short.
    """
    needed = sequences * context + 1
    if len(tokens) < needed:
        raise ValueError(
            f"the validation shard is too short: expected {needed} tokens for {sequences} "
            f"sequences of {context}; seen {len(tokens)}"
        )
    starts = np.arange(sequences) * context
    return torch.from_numpy(tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64))


def validation_id(sequences_BT: Tensor) -> str:
    """sha256 of the tokens as rows of little-endian uint16."""
    return hashlib.sha256(sequences_BT.numpy().astype("<u2").tobytes()).hexdigest()


def cross_entropy(logits_BTV: Tensor, _base_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean loss of each sequence (B)."""
    each_BT = functional.cross_entropy(logits_BTV.transpose(1, 2), targets_BT, reduction="none")
    return each_BT.mean(1)


def divergence(logits_BTV: Tensor, base_BTV: Tensor, _targets_BT: Tensor) -> Tensor:
    """KL(base || model) of the next-token distributions, mean over each sequence (B)."""
    model, base = logits_BTV.log_softmax(-1), base_BTV.log_softmax(-1)
    return (base.exp() * (base - model)).sum(-1).mean(1)


METRICS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "loss": cross_entropy,
    "kl": divergence,
}
"""Each gives a number a sequence (B) from logits of model and base (B, T, V) and targets (B, T)."""


def evaluate(
    model: Transformer, base: Transformer, sequences_BT: Tensor, metrics: Sequence[str]
) -> dict[str, Any]:
    """Means of the metrics by name, and under `validation` the set and the loss of each sequence.

    Sequences are equally long, so that their mean is the mean over all tokens.

    Raises:
        ValueError: for a metric that is not in `METRICS`.
    """
    unknown = [name for name in metrics if name not in METRICS]
    if unknown:
        raise ValueError(f"unknown metrics {unknown}; known are {sorted(METRICS)}")
    measured = measure(model, base, sequences_BT, {"loss", *metrics})
    return {name: math.fsum(measured[name]) / len(measured[name]) for name in metrics} | {
        "validation": {
            "id": validation_id(sequences_BT),
            "sequences": sequences_BT.shape[0],
            "context": sequences_BT.shape[1] - 1,
            "losses": measured["loss"],
        }
    }


def batch_sequences(sequences_BT: Tensor) -> int:
    """Sequences in a batch: a function of the context alone."""
    return max(1, TOKENS_AT_ONCE // (sequences_BT.shape[1] - 1))


@torch.inference_mode()
def measure(
    model: Transformer, base: Transformer, sequences_BT: Tensor, metrics: Iterable[str]
) -> dict[str, list[float]]:
    """Each metric of each sequence; a base that is the model itself runs once."""
    measured: dict[str, list[float]] = {name: [] for name in metrics}
    for part_BT in torch.split(sequences_BT, batch_sequences(sequences_BT)):
        tokens_BT = part_BT.to(model.head_weight.device)
        logits_BTV = model(tokens_BT[:, :-1])
        base_BTV = logits_BTV if base is model else base(tokens_BT[:, :-1])
        for name in measured:
            measured[name] += METRICS[name](logits_BTV, base_BTV, tokens_BT[:, 1:]).tolist()
    return measured


def sequence_losses(model: Transformer, sequences_BT: Tensor) -> list[float]:
    """Mean loss of each sequence."""
    return measure(model, model, sequences_BT, ["loss"])["loss"]
