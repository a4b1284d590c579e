"""Quantisation-aware training: the forward pass sees rounded weights, gradients pass straight.

Training takes the place of the cool-down, from a milestone with the optimiser's moments carried
over (Dremov et al. 2509.22935), or starts at the first step.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor
from torch.func import functional_call

from quantlm.loop import Trainer
from quantlm.model import Linear, Transformer, linears
from quantlm.quantiser import Calibration, Levels, Quantised
from quantlm.quantiser import quantise as to_nearest
from quantlm.speed import Forward


def extend(
    trainer: Trainer,  # noqa: ARG001 - the signature that all trained methods share
    form: Mapping[str, Any],  # noqa: ARG001
) -> tuple[str, ...]:
    """The weights are all that is learned: no parameter is added, none is named."""
    return ()


def forward(form: Mapping[str, Any]) -> Forward:
    """How logits are made during training."""
    levels = Levels.of(form)
    return through(lambda matrix: straight_through(matrix.weight, levels))


def through(rounded: Callable[[Linear], Tensor]) -> Forward:
    """Logits of a model that computes with a rounded form of every matrix of its blocks."""

    def logits(model: Transformer, tokens_BT: Tensor) -> Tensor:
        weights = {f"{name}.weight": rounded(matrix) for name, matrix in linears(model).items()}
        return cast("Tensor", functional_call(model, weights, (tokens_BT,)))

    return logits


def straight_through(weight_OI: Tensor, levels: Levels) -> Tensor:
    """The rounded weights, with the gradient of the weights themselves (Bengio 1308.3432).

    The sum adds an exact zero: training sees the very values that `quantise` exports.
    """
    latent = weight_OI.detach()
    return to_nearest(latent, levels).values() + (weight_OI - latent)


def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, Quantised]:
    """The matrices that training saw, as codes; the model keeps its latent weights."""
    levels = Levels.of(form)
    return {name: to_nearest(x.weight.detach(), levels) for name, x in linears(model).items()}
