"""Rounding of what flows through a running model: inputs of matrices, cached keys and values.

Ranges are dynamic and asymmetric (QU 1.2): every vector gets a scale and a zero point of its own
when it comes by, as `quantiser` fits a row.  An input is one vector a token; in a cache, a head's
key and value are one vector each, keys after their rotation, because that is what a cache holds.

Shape suffixes: B sequences, T positions, D width of the model, H heads, K width of a head.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from quantlm.model import Attention, Linear, Transformer, linears, rotate
from quantlm.quantiser import Levels, quantise

Change = Callable[[Tensor], Tensor]


def rounded(x: Tensor, bits: int) -> Tensor:
    """Vectors along the last axis, each rounded to levels of its own."""
    levels = Levels(bits=bits, group="row", rule="asymmetric", scale_dtype="float32")
    return quantise(x.reshape(-1, x.shape[-1]), levels).values().reshape(x.shape)


def change_inputs(model: Transformer, change: Change) -> None:
    """Let every matrix of the blocks see changed inputs, for as long as the model lives."""
    for matrix in linears(model).values():
        _change(matrix, change)


def _change(matrix: Linear, change: Change) -> None:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (change(inputs[0]),)

    matrix.register_forward_pre_hook(hook)


def round_cache(model: Transformer, bits: int) -> None:
    """Let every attention see rounded keys and values, for as long as the model lives."""
    for block in model.blocks:
        block.attention = CachedAttention(cast("Attention", block.attention), bits)


class CachedAttention(nn.Module):
    """An attention whose keys and values went through a cache of few bits; shares its matrices."""

    def __init__(self, attention: Attention, bits: int) -> None:
        super().__init__()
        self.num_heads, self.bits = attention.num_heads, bits
        self.query, self.key = attention.query, attention.key
        self.value, self.output = attention.value, attention.output

    def forward(self, x_BTD: Tensor, turns_TK: Tensor) -> Tensor:
        """Mix positions, as `Attention` does."""
        query = rotate(self._heads(self.query(x_BTD)), turns_TK)
        key = rounded(rotate(self._heads(self.key(x_BTD)), turns_TK), self.bits)
        value = rounded(self._heads(self.value(x_BTD)), self.bits)
        mixed_BHTK = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast("Tensor", self.output(mixed_BHTK.transpose(1, 2).flatten(2)))

    def _heads(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.view(*x_BTD.shape[:2], self.num_heads, -1).transpose(1, 2)
