"""GPTQ: round one input after the other and let the inputs that follow make up for the error.

Frantar et al. 2210.17323, with static groups: scales come from the weights before any correction,
so that a form rounds to the same levels as RTN does.  Blocks of the model are quantised in order,
each on what the blocks before it, already quantised, hand to it.  An input that is zero throughout
calibration is rounded to nearest, where the authors' code sets its weights to zero.

Shape suffixes: B sequences, T positions, D width of the model; O outputs, I inputs of a matrix.
"""

import copy
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from quantlm.model import Linear, Transformer
from quantlm.quantiser import Calibration, Levels, Quantised, decode, encode, fit, spread

COLUMNS_AT_ONCE = 128
"""Corrections beyond so many columns are applied together (the paper's lazy batch)."""

SEQUENCES_AT_ONCE = 16


@torch.no_grad()
def quantise(
    model: Transformer, form: Mapping[str, Any], calibration: Calibration
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    levels, worker = Levels.of(form), copy.deepcopy(model)
    tokens_BT = calibration(form["calibration_sequences"])[:, :-1].to(worker.head_weight.device)
    stream_BTD, turns_TK = worker.embedding(tokens_BT), worker.turns_for(tokens_BT)
    layers: dict[str, Quantised] = {}
    for number, block in enumerate(worker.blocks):
        matrices = _matrices(block)
        _, hessians = _forward(block, matrices, stream_BTD, turns_TK)
        for name, matrix in matrices.items():
            layer = solve(
                matrix.weight,
                hessians[name],
                levels,
                act_order=form["act_order"],
                damping=form["damping"],
            )
            matrix.weight.copy_(layer.values())
            layers[f"blocks.{number}.{name}"] = layer
        stream_BTD, _ = _forward(block, {}, stream_BTD, turns_TK)
    return layers


def solve(
    weight_OI: Tensor, hessian_II: Tensor, levels: Levels, *, act_order: bool, damping: float
) -> Quantised:
    """Codes that keep `weight @ x` close, on the levels that RTN would use.

    Args:
        weight_OI: The matrix.
        hessian_II: Mean of x x^T over calibration inputs; its scale does not matter.
        levels: Allowed values.
        act_order: Take inputs by falling diagonal of the Hessian instead of left to right.
        damping: Part of the mean diagonal that is added to the diagonal.

    Raises:
        torch.linalg.LinAlgError: when the damped Hessian is not positive definite.
    """
    scales_RG, zeros_RG = fit(weight_OI, levels)
    scale_OI, zero_OI = spread(levels, weight_OI.shape, scales_RG, zeros_RG)
    order = _order(hessian_II, act_order=act_order)
    ordered = scale_OI[:, order], zero_OI[:, order]
    factor_II = inverse_factor(hessian_II[order][:, order], damping)
    codes_OI = torch.empty_like(weight_OI, dtype=torch.int8)
    codes_OI[:, order] = _columns(weight_OI.double()[:, order], factor_II, *ordered, levels)
    return Quantised(levels, codes_OI, scales_RG, zeros_RG)


def inverse_factor(hessian_II: Tensor, damping: float) -> Tensor:
    """Upper Cholesky factor of the inverse of the damped Hessian, float64."""
    damped = hessian_II.double().clone()
    damped.diagonal().add_(damping * damped.diagonal().mean())
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    return cast("Tensor", torch.linalg.cholesky(inverse, upper=True))


def _order(hessian_II: Tensor, *, act_order: bool) -> Tensor:
    diagonal = hessian_II.diagonal()
    if act_order:
        return diagonal.argsort(descending=True, stable=True)
    return torch.arange(len(diagonal), device=diagonal.device)


def _columns(
    weight_OI: Tensor, factor_II: Tensor, scale_OI: Tensor, zero_OI: Tensor, levels: Levels
) -> Tensor:
    """Codes of a float64 matrix, column by column; overwrites the matrix."""
    codes_OI = torch.empty_like(weight_OI, dtype=torch.int8)
    num_columns = weight_OI.shape[1]
    for start in range(0, num_columns, COLUMNS_AT_ONCE):
        stop = min(start + COLUMNS_AT_ONCE, num_columns)
        errors = torch.empty_like(weight_OI[:, start:stop])
        for column in range(start, stop):
            scale_O, zero_O = scale_OI[:, column], zero_OI[:, column]
            code_O = encode(weight_OI[:, column], scale_O, zero_O, levels)
            missed_O = weight_OI[:, column] - decode(code_O, scale_O, zero_O, levels)
            error_O = missed_O / factor_II[column, column]
            weight_OI[:, column:stop] -= torch.outer(error_O, factor_II[column, column:stop])
            codes_OI[:, column], errors[:, column - start] = code_O, error_O
        weight_OI[:, stop:] -= errors @ factor_II[start:stop, stop:]
    return codes_OI


def _matrices(block: nn.Module) -> dict[str, Linear]:
    return {name: each for name, each in block.named_modules() if isinstance(each, Linear)}


def _forward(
    block: nn.Module, matrices: Mapping[str, Linear], stream_BTD: Tensor, turns_TK: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The stream after a block, and the Hessian of the inputs of each named matrix."""
    hessians = {
        name: torch.zeros(each.in_features, each.in_features, dtype=torch.float64).to(
            stream_BTD.device
        )
        for name, each in matrices.items()
    }
    num_inputs = stream_BTD.shape[0] * stream_BTD.shape[1]
    hooks = [_watch(each, hessians[name], num_inputs) for name, each in matrices.items()]
    parts = [block(part, turns_TK) for part in torch.split(stream_BTD, SEQUENCES_AT_ONCE)]
    for hook in hooks:
        hook.remove()
    return torch.cat(parts), hessians


def _watch(matrix: Linear, hessian_II: Tensor, num_inputs: int) -> RemovableHandle:
    def add(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].flatten(0, -2).double()
        hessian_II.add_(x.T @ x, alpha=1 / num_inputs)

    return matrix.register_forward_pre_hook(add)
