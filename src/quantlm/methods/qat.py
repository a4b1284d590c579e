"""Quantisation-aware training: the forward pass sees rounded weights, gradients pass straight.

Training starts from a milestone and takes the place of the cool-down (Dremov et al. 2509.22935);
the optimiser's moments are carried over.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor
from torch.func import functional_call

from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration, Levels, Quantised
from quantlm.quantiser import quantise as to_nearest


def forward(form: Mapping[str, Any]) -> Callable[[Transformer, Tensor], Tensor]:
    """How logits are made during training.

    Raises:
        ValueError: when the form starts anywhere but at the cool-down.
    """
    if form["start"] != "cooldown":
        raise ValueError(f"qat starts at the cool-down; seen start {form['start']!r}")
    levels = Levels.of(form)

    def logits(model: Transformer, tokens_BT: Tensor) -> Tensor:
        rounded = {
            f"{name}.weight": straight_through(linear.weight, levels)
            for name, linear in linears(model).items()
        }
        return cast("Tensor", functional_call(model, rounded, (tokens_BT,)))

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
