"""MXFP4: four-bit floats in groups of 32 that share a power of two (OCP microscaling v1.0)."""

from collections.abc import Mapping
from typing import Any

from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration
from quantlm.smallfloats import SmallFloats, mxfp4


def quantise(
    model: Transformer,
    form: Mapping[str, Any],  # noqa: ARG001 - `quantgrid.forms` allows one form only
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, SmallFloats]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    return {name: mxfp4(x.weight.detach()) for name, x in linears(model).items()}
