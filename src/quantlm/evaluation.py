"""Measures of a model on a fixed validation set, sequence by sequence.

Losses are in nats per token.  Shape suffixes: B sequences, T positions, V vocabulary.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Subject:
    """A model under measurement: its base, the sequences (B, context + 1), its loss on each."""

    model: Transformer
    base: Transformer
    sequences: Tensor
    losses: list[float]


def evaluate(
    model: Transformer, base: Transformer, sequences_BT: Tensor, metrics: Sequence[str]
) -> dict[str, Any]:
    """Each metric by name, and under `validation` the set and the loss of every sequence.

    Raises:
        ValueError: for a metric that is not in `METRICS`.
    """
    unknown = [name for name in metrics if name not in METRICS]
    if unknown:
        raise ValueError(f"unknown metrics {unknown}; known are {sorted(METRICS)}")
    subject = Subject(model, base, sequences_BT, sequence_losses(model, sequences_BT))
    return {name: METRICS[name](subject) for name in metrics} | {
        "validation": {
            "id": validation_id(sequences_BT),
            "sequences": sequences_BT.shape[0],
            "context": sequences_BT.shape[1] - 1,
            "losses": subject.losses,
        }
    }


@torch.inference_mode()
def sequence_losses(model: Transformer, sequences_BT: Tensor) -> list[float]:
    """Mean loss of each sequence."""
    losses: list[float] = []
    for part_BT in _parts(model, sequences_BT):
        logits_BVT = model(part_BT[:, :-1]).transpose(1, 2)
        each_BT = functional.cross_entropy(logits_BVT, part_BT[:, 1:], reduction="none")
        losses += each_BT.mean(1).tolist()
    return losses


def mean_loss(subject: Subject) -> float:
    """Mean over all tokens; sequences are equally long."""
    return math.fsum(subject.losses) / len(subject.losses)


@torch.inference_mode()
def divergence(subject: Subject) -> float:
    """KL(base || model) of the next-token distributions, mean over all tokens."""
    total = 0.0
    for part_BT in _parts(subject.model, subject.sequences):
        base_BTV, model_BTV = (
            each(part_BT[:, :-1]).double().log_softmax(-1) for each in (subject.base, subject.model)
        )
        total += float((base_BTV.exp() * (base_BTV - model_BTV)).sum())
    return total / subject.sequences[:, 1:].numel()


METRICS: dict[str, Callable[[Subject], float]] = {"loss": mean_loss, "kl": divergence}


def _parts(model: Transformer, sequences_BT: Tensor) -> Iterator[Tensor]:
    """Batches on the model's device; their size depends on the context alone."""
    count = max(1, TOKENS_AT_ONCE // (sequences_BT.shape[1] - 1))
    for part_BT in torch.split(sequences_BT, count):
        yield part_BT.to(model.head_weight.device)
