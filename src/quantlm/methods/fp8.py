"""FP8: E4M3 elements under the scale of a tensor, a row or a group."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from quantlm import smallfloats
from quantlm.model import Transformer, linears
from quantlm.quantiser import SCALE_DTYPES, Calibration, Levels
from quantlm.smallfloats import SmallFloats


def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, SmallFloats]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    return {name: _rounded(x.weight.detach(), form) for name, x in linears(model).items()}


def _rounded(weight_OI: Tensor, form: Mapping[str, Any]) -> SmallFloats:
    grouping = Levels(bits=8, group=form["group"], rule="absmax")
    blocks_RGK = weight_OI.float().reshape(grouping.blocks(weight_OI.shape))
    return smallfloats.fp8(blocks_RGK, weight_OI.shape, SCALE_DTYPES[form["scale_dtype"]])
