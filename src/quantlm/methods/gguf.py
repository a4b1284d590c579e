"""Q8_0 of GGUF, to the byte: codes from the scale before it is rounded to float16.

Elsewhere codes follow the stored scale, which reconstructs no worse (`quantlm.quantiser`); files
of llama.cpp hold these.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration, Levels, Quantised


def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    levels = Levels.of(form)
    return {name: q8_0(x.weight.detach(), levels) for name, x in linears(model).items()}


def q8_0(weight_OI: Tensor, levels: Levels) -> Quantised:
    """Steps of absmax / 127 per 32 weights; halves go away from zero, zeros have no step at all."""
    blocks_RGK = weight_OI.float().reshape(levels.blocks(weight_OI.shape))
    scales_RG = blocks_RGK.abs().amax(-1) / levels.qmax
    per_step_RG = torch.where(scales_RG > 0, 1 / scales_RG, torch.zeros_like(scales_RG))
    steps_RGK = blocks_RGK * per_step_RG.unsqueeze(-1)
    codes_RGK = torch.trunc(steps_RGK + torch.copysign(torch.full_like(steps_RGK, 0.5), steps_RGK))
    codes = codes_RGK.to(torch.int8).reshape(weight_OI.shape)
    return Quantised(levels, codes, scales_RG.half(), None)
