"""Round to nearest: every weight to its closest level, without any data."""

from collections.abc import Mapping
from typing import Any

from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration, Levels, Quantised
from quantlm.quantiser import quantise as to_nearest


def quantise(
    model: Transformer,
    form: Mapping[str, Any],
    calibration: Calibration,  # noqa: ARG001 - the signature that all methods share
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    levels = Levels.of(form)
    return {name: to_nearest(x.weight.detach(), levels) for name, x in linears(model).items()}
