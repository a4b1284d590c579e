"""Tries of models and forms that cost nothing: shapes without memory, methods on a tiny model.

Shape suffixes: B sequences, T positions, V vocabulary.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from quantlm import data, evaluation, packing, schedule
from quantlm.data import Tokens
from quantlm.loop import Trainer
from quantlm.model import Architecture, Transformer, build

_SEQUENCES = 4
_STEPS = 2


def try_model(spec: Mapping[str, Any]) -> int:
    """Forward and backward through a model of a resolved spec on the meta device; its parameters.

    Raises:
        ValueError: when the logits have another shape than the spec says.
    """
    architecture = Architecture.of(spec)
    with torch.device("meta"):
        model = Transformer(architecture)
        tokens_BT = torch.zeros(_SEQUENCES, architecture.context + 1, dtype=torch.int64)
        logits_BTV = model(tokens_BT[:, :-1])
        _refuse_shape(logits_BTV.shape, (_SEQUENCES, architecture.context, architecture.vocab_size))
        loss = functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten())
    torch.autograd.backward(loss)
    return sum(weight.numel() for weight in model.parameters())


def _refuse_shape(seen: torch.Size, expected: tuple[int, ...]) -> None:
    if tuple(seen) != expected:
        raise ValueError(f"the logits have another shape: expected {expected}, seen {tuple(seen)}")


def try_form(form: Mapping[str, Any], model: Mapping[str, Any], metrics: tuple[str, ...]) -> float:
    """Make a form of a tiny model, by training if it trains, and evaluate it; its loss.

    Args:
        form: The resolved form; of its calibration only a little is used.
        model: The resolved spec of a tiny model that its groups suit.
        metrics: What is measured.
    """
    torch.manual_seed(0)
    small = {**form, "calibration_sequences": _SEQUENCES}
    view = _Ramp(model["context"], model["vocab_size"])
    base = build(Architecture.of(model), 0)
    made = _made(small, model, view) if form["method"] != "none" else base
    sequences_BT = evaluation.validation_set(
        view.validation(), context=model["context"], sequences=_SEQUENCES
    )
    return float(evaluation.evaluate(made, base, sequences_BT, metrics)["loss"])


def _made(form: Mapping[str, Any], model: Mapping[str, Any], view: "_Ramp") -> Transformer:
    method = import_module(f"quantlm.methods.{form['method']}")
    made = build(Architecture.of(model), 0)
    if hasattr(method, "forward"):
        trunk = {"model": model, "seed": 0, "passes": 1, "unique_tokens": None}
        trainer = Trainer.start(trunk, view, torch.device("cpu"), forward=method.forward(form))
        method.extend(trainer, form)
        trainer.run(_STEPS, schedule.trunk_rate(model["learning_rate"], 1))
        made = trainer.model
    layers = method.quantise(made, form, partial(data.calibration, view, model["context"]))
    packing.summary(made, layers)
    if hasattr(method, "run"):
        method.run(made, form)
    return made


class _Ramp:
    """A corpus in memory: one shard of tokens that count up."""

    def __init__(self, context: int, vocab_size: int) -> None:
        tokens = np.arange(64 * context + 1) * 7 % vocab_size
        self._tokens = tokens.astype(np.uint16)
        self.shard_tokens = {"": len(self._tokens)}

    def ahead(self, names: object) -> None:
        """Nothing has to be read."""

    def shard(self, name: str) -> Tokens:  # noqa: ARG002 - there is one
        """All tokens."""
        return self._tokens

    def validation(self) -> Tokens:
        """The same tokens."""
        return self._tokens

    def charge(self, name: str, tokens: int) -> None:
        """Nobody counts."""

    def receipt(self) -> dict[str, Any]:
        """Nothing was verified."""
        return {}

    def seen(self) -> dict[str, Any]:
        """Nothing was counted."""
        return {}

    def take_up(self, seen: Mapping[str, Any]) -> None:
        """Nothing is counted."""
