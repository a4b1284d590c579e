"""Streams of small codes, exact to the byte, lowest bit or trit first.

Codes of b bits follow each other without gaps.  Ternary codes are base 3, five to a byte
(3^5 = 243), the first trit lowest: 1.6 bits a code.  A stream ends in the middle of a byte at most
once.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bytes = NDArray[np.uint8]

TRITS = "trits"
"""In place of a number of bits: three values a code."""

TRITS_IN_BYTE = 5
_TRIT_WEIGHTS = 3 ** np.arange(TRITS_IN_BYTE, dtype=np.uint8)


def pack(codes: Tensor, width: int | str) -> Tensor:
    """A stream (uint8) of codes from 0 up, each of `width` bits, or `TRITS`."""
    taken = codes.cpu().to(torch.uint8).numpy().ravel()
    return torch.from_numpy(_trits(taken) if width == TRITS else _bits(taken, int(width)))


def unpack(stream: Tensor, width: int | str, shape: torch.Size) -> Tensor:
    """The codes (uint8, of `shape`) that `pack` packed."""
    taken, count = stream.numpy(), shape.numel()
    codes = _from_trits(taken, count) if width == TRITS else _from_bits(taken, int(width), count)
    return torch.from_numpy(codes).reshape(shape)


def _bits(codes: Bytes, width: int) -> Bytes:
    columns = (codes[:, None] >> np.arange(width, dtype=np.uint8)) & 1
    return np.packbits(columns, bitorder="little")


def _from_bits(stream: Bytes, width: int, count: int) -> Bytes:
    columns = np.unpackbits(stream, count=width * count, bitorder="little").reshape(count, width)
    return np.packbits(columns, axis=1, bitorder="little")[:, 0]


def _trits(codes: Bytes) -> Bytes:
    padded = np.zeros(-(-codes.size // TRITS_IN_BYTE) * TRITS_IN_BYTE, dtype=np.uint8)
    padded[: codes.size] = codes
    return padded.reshape(-1, TRITS_IN_BYTE) @ _TRIT_WEIGHTS


def _from_trits(stream: Bytes, count: int) -> Bytes:
    return (stream[:, None] // _TRIT_WEIGHTS % 3).reshape(-1)[:count]
