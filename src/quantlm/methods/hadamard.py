"""Weights and inputs rotated block by block, then rounded: outliers cost less range.

A rotation of both sides of a product leaves it as it is, so that only rounding differs from
`activation`.  The matrices that are stored are the rotated ones: `run` rotates what they are given.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from quantlm import rotation, running
from quantlm.methods import rtn
from quantlm.model import Transformer, linears
from quantlm.quantiser import Calibration, Quantised


@torch.no_grad()
def quantise(
    model: Transformer, form: Mapping[str, Any], calibration: Calibration
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model's own are rotated."""
    for matrix in linears(model).values():
        matrix.weight.copy_(rotation.rotate(matrix.weight))
    return rtn.quantise(model, form, calibration)


def run(model: Transformer, form: Mapping[str, Any]) -> None:
    """Let a model of these weights compute as its form says."""
    running.change_inputs(model, partial(_turned, bits=form["activation_bits"]))


def _turned(x: Tensor, bits: int) -> Tensor:
    return running.rounded(rotation.rotate(x), bits)
