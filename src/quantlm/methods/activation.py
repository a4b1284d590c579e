"""Rounded weights and rounded inputs: RTN, and dynamic levels for what every matrix is given."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from quantlm import running
from quantlm.methods import rtn
from quantlm.model import Transformer
from quantlm.quantiser import Calibration, Quantised


def quantise(
    model: Transformer, form: Mapping[str, Any], calibration: Calibration
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model is left as it is."""
    return rtn.quantise(model, form, calibration)


def run(model: Transformer, form: Mapping[str, Any]) -> None:
    """Let a model of these weights compute as its form says."""
    running.change_inputs(model, partial(running.rounded, bits=form["activation_bits"]))
