"""Block Hadamard rotations: outliers of one channel spread over its block.

Ashkboos et al. 2404.00456 (QuaRot); blocks as in QuEST 2502.05003.  The matrix is Sylvester's,
divided by its norm: symmetric, and its own inverse.
"""

import math

import torch
from torch import Tensor

LARGEST_BLOCK = 128
"""Every width of `config/models` but n0's is a multiple of it (QU 2)."""


def block_of(width: int) -> int:
    """The largest power of two that divides a width, at most `LARGEST_BLOCK`."""
    return min(width & -width, LARGEST_BLOCK)


def hadamard(size: int) -> Tensor:
    """Sylvester's matrix (size, size) divided by sqrt(size), float32; size is a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(size)


def rotate(x: Tensor) -> Tensor:
    """Turn the last axis, block by block; a second turn undoes the first up to rounding."""
    size = block_of(x.shape[-1])
    blocks = x.reshape(*x.shape[:-1], -1, size)
    return (blocks @ hadamard(size).to(x)).reshape(x.shape)
