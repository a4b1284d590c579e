"""SmoothQuant: outliers of inputs move into the weights, where they cost less, before rounding.

Xiao et al. 2211.10438.  Channel j of an input is divided by absmax(X_j)^a / absmax(W_j)^(1 - a)
with a = 1/2, and the matrix that it meets is multiplied by it.  The division is folded into what
makes the input: the norm before attention and feed-forward, the values before the output matrix,
the upper matrix before the lower one (the input with the worst outliers, Chen et al. 2505.14302).
So the smoothed model has the shape, and but for rounding the function, of the model.

Shape suffixes: B sequences, T positions; O outputs, I inputs of a matrix.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quantlm.methods import activation
from quantlm.methods.activation import run
from quantlm.model import Block, Linear, Transformer
from quantlm.quantiser import Calibration, Quantised

__all__ = ["quantise", "run", "smooth"]

STRENGTH = 0.5
SEQUENCES_AT_ONCE = 16
LEAST = 1e-5
"""Smallest magnitude that a scale is made of: a silent channel is left about as it is."""


@torch.no_grad()
def quantise(
    model: Transformer, form: Mapping[str, Any], calibration: Calibration
) -> dict[str, Quantised]:
    """Every matrix of the blocks, by name; the model becomes the smoothed one."""
    smooth(model, calibration(form["calibration_sequences"])[:, :-1])
    return activation.quantise(model, form, calibration)


@torch.no_grad()
def smooth(model: Transformer, tokens_BT: Tensor) -> None:
    """Balance inputs and weights of every block by the inputs that these tokens make."""
    blocks = [block for block in model.blocks if isinstance(block, Block)]
    watched = [reader for block in blocks for _, (reader, *_) in _pairs(block)]
    largest = dict(zip(watched, _largest_inputs(model, watched, tokens_BT), strict=True))
    for block in blocks:
        for source, readers in _pairs(block):
            _move(source, readers, largest[readers[0]])


def _pairs(block: Block) -> Iterator[tuple[Tensor, Sequence[Linear]]]:
    """What makes an input (one entry or row a channel) with the matrices that read it."""
    attention, feed_forward = block.attention, block.feed_forward
    yield block.attention_norm.weight, (attention.query, attention.key, attention.value)
    yield attention.value.weight, (attention.output,)
    yield block.feed_forward_norm.weight, (feed_forward.gate, feed_forward.up)
    yield feed_forward.up.weight, (feed_forward.down,)


def _move(source: Tensor, readers: Sequence[Linear], inputs_I: Tensor) -> None:
    weights_I = torch.stack([reader.weight.abs().amax(0) for reader in readers]).amax(0)
    scale_I = inputs_I.clamp(min=LEAST) ** STRENGTH
    scale_I = scale_I / weights_I.clamp(min=LEAST) ** (1 - STRENGTH)
    source.div_(scale_I if source.ndim == 1 else scale_I.unsqueeze(1))
    for reader in readers:
        reader.weight.mul_(scale_I)


def _largest_inputs(
    model: Transformer, matrices: Sequence[Linear], tokens_BT: Tensor
) -> list[Tensor]:
    """Largest magnitude (I) of every input channel of each matrix."""
    device = model.head_weight.device
    largest = [torch.zeros(matrix.in_features, device=device) for matrix in matrices]

    def watch(kept_I: Tensor) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            torch.maximum(kept_I, inputs[0].flatten(0, -2).abs().amax(0), out=kept_I)

        return hook

    hooks = [
        matrix.register_forward_pre_hook(watch(kept_I))
        for matrix, kept_I in zip(matrices, largest, strict=True)
    ]
    for part_BT in torch.split(tokens_BT, SEQUENCES_AT_ONCE):
        model(part_BT.to(device))
    for each in hooks:
        each.remove()
    return largest
