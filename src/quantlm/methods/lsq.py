"""LSQ: the step size of every row is trained with the weights.

Esser et al. 1902.08153: weights inside the levels pass their gradient, weights beyond do not; the
step gets (level - w / step) inside and the outermost level beyond, scaled by 1 / sqrt(weights x
largest level).  What is trained is the logarithm of the step: AdamW moves every parameter by about
the learning rate, which is a large part of a step of .02 and a small one of its logarithm (Jain et
al. 1903.08066).  It starts from the weights that the first forward pass meets.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from quantlm.loop import Trainer
from quantlm.methods.qat import through
from quantlm.model import Linear, Transformer, linears
from quantlm.quantiser import (
    SCALE_DTYPES,
    SMALLEST_SCALE,
    Calibration,
    Levels,
    Quantised,
    encode,
    fit,
    spread,
)
from quantlm.speed import Forward

LOG_STEP = "log_step"
"""Name of the parameter (R) that a matrix gets: the natural logarithm of its steps."""

UNSET = -math.inf
"""A step that no forward pass has met yet."""


def extend(trainer: Trainer, form: Mapping[str, Any]) -> tuple[str, ...]:
    """Give every matrix its steps and let the optimiser train them, without decay.

    Returns:
        The names of the new parameters: no milestone holds them.
    """
    matrices = linears(trainer.model)
    for matrix in matrices.values():
        rows = Levels.of(form).blocks(matrix.weight.shape)[0]
        unset_R = torch.full((rows,), UNSET, device=matrix.weight.device)
        matrix.register_parameter(LOG_STEP, nn.Parameter(unset_R))
    steps = [log_step(matrix) for matrix in matrices.values()]
    trainer.optimiser.add_param_group({"params": steps, "weight_decay": 0.0})
    return tuple(f"{name}.{LOG_STEP}" for name in matrices)


def forward(form: Mapping[str, Any]) -> Forward:
    """How logits are made during training."""
    levels = Levels.of(form)
    trained = through(lambda matrix: learned(matrix.weight, log_step(matrix), levels))
    is_set = False

    def logits(model: Transformer, tokens_BT: Tensor) -> Tensor:
        nonlocal is_set
        if not is_set:
            for matrix in linears(model).values():
                set_step(matrix, levels)
            is_set = True
        return trained(model, tokens_BT)

    return logits


def log_step(matrix: Linear) -> nn.Parameter:
    """The parameter that `extend` gave a matrix."""
    return cast("nn.Parameter", getattr(matrix, LOG_STEP))


@torch.no_grad()
def set_step(matrix: Linear, levels: Levels) -> nn.Parameter:
    """The steps of a matrix, set from its weights if nothing has set them."""
    log_step_R = log_step(matrix)
    if bool(torch.isneginf(log_step_R).any()):
        scales_RG, _ = fit(matrix.weight, levels)
        log_step_R.copy_(scales_RG.float().log().flatten())
    return log_step_R


def learned(weight_OI: Tensor, log_step_R: Tensor, levels: Levels) -> Tensor:
    """The rounded weights, with the gradients of LSQ for weights and steps.

    The sum adds an exact zero: training sees the very values that `quantise` exports.
    """
    values = rounded(weight_OI.detach(), log_step_R.detach(), levels).values()
    per_step = weight_OI.numel() / log_step_R.numel()
    share = 1 / math.sqrt(per_step * levels.qmax)
    slowed_R = log_step_R * share + (log_step_R * (1 - share)).detach()
    step_OI, _ = spread(levels, weight_OI.shape, slowed_R.exp().unsqueeze(1), None)
    inside = (weight_OI / step_OI).clamp(levels.qmin, levels.qmax)
    surrogate = (inside + (inside.round() - inside).detach()) * step_OI
    return values + (surrogate - surrogate.detach())


def rounded(weight_OI: Tensor, log_step_R: Tensor, levels: Levels) -> Quantised:
    """A matrix on the levels of its steps."""
    steps_RG = log_step_R.exp().clamp(min=SMALLEST_SCALE).unsqueeze(1)
    scales_RG = steps_RG.to(SCALE_DTYPES[levels.scale_dtype])
    scale, zero = spread(levels, weight_OI.shape, scales_RG, None)
    return Quantised(levels, encode(weight_OI, scale, zero, levels), scales_RG, None)


@torch.no_grad()
def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, Quantised]:
    """The matrices that training saw, as codes; the model keeps its latent weights.

    The steps leave the model: they are the scales of the layers now.
    """
    levels, layers = Levels.of(form), {}
    for name, matrix in linears(model).items():
        layers[name] = rounded(matrix.weight.detach(), set_step(matrix, levels).detach(), levels)
        delattr(matrix, LOG_STEP)
    return layers
