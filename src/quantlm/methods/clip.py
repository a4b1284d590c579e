"""Rounding to nearest on clipped ranges: what a group loses at its ends, it wins in between.

The range of every group is shrunk in even steps, and the one with the least square error is kept
(the search of OmniQuant's and AWQ's baselines; QU 1.3: it pays at 2 bits).  The range as it is
stands first, so that no group is worse than with `rtn`.

Shape suffixes: O outputs, I inputs of a matrix; R rows of scales, G groups in a row, K weights.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration, Levels, Quantised, encode, fit, spread

NUM_RANGES = 80
LEAST_RANGE = 0.2
"""Shares of the full range that are tried: 1, .99, ... down to .21."""


def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    levels = Levels.of(form)
    return {name: clipped(x.weight.detach(), levels) for name, x in linears(model).items()}


def clipped(weight_OI: Tensor, levels: Levels) -> Quantised:
    """A matrix rounded with the range of least square error for every group."""
    blocks_RGK = weight_OI.float().reshape(levels.blocks(weight_OI.shape))
    best = _rounded(weight_OI, weight_OI, levels)
    least_RG = _errors(best, blocks_RGK)
    for number in range(1, NUM_RANGES):
        share = 1 - (1 - LEAST_RANGE) * number / NUM_RANGES
        tried = _rounded(weight_OI, _shrunk(blocks_RGK, share).reshape(weight_OI.shape), levels)
        errors_RG = _errors(tried, blocks_RGK)
        best = _merged(best, tried, errors_RG < least_RG)
        least_RG = torch.minimum(least_RG, errors_RG)
    return best


def _rounded(weight_OI: Tensor, ranges_OI: Tensor, levels: Levels) -> Quantised:
    """The matrix on the levels that fit another one."""
    scales_RG, zeros_RG = fit(ranges_OI, levels)
    scale, zero = spread(levels, weight_OI.shape, scales_RG, zeros_RG)
    return Quantised(levels, encode(weight_OI, scale, zero, levels), scales_RG, zeros_RG)


def _shrunk(blocks_RGK: Tensor, share: float) -> Tensor:
    low, high = blocks_RGK.amin(-1, keepdim=True), blocks_RGK.amax(-1, keepdim=True)
    return torch.minimum(torch.maximum(blocks_RGK, low * share), high * share)


def _errors(layer: Quantised, blocks_RGK: Tensor) -> Tensor:
    """Square error (R, G) of every group."""
    return (layer.values().reshape(blocks_RGK.shape) - blocks_RGK).square().sum(-1)


def _merged(one: Quantised, other: Quantised, take_RG: Tensor) -> Quantised:
    """The groups of `other` where they are to be taken, else those of `one`."""
    shape = one.codes.shape
    taken_OI, _ = spread(one.levels, shape, take_RG, None)
    return Quantised(
        one.levels,
        torch.where(taken_OI > 0, other.codes, one.codes),
        torch.where(take_RG, other.scales, one.scales),
        None
        if one.zeros is None or other.zeros is None
        else torch.where(take_RG, other.zeros, one.zeros),
    )
