"""Packed bytes of quantised matrices, exact: what a deployed file would hold.

Integer codes are a stream of `bits` bits each, lowest bit first, from qmin up; zero points alike.
Ternary codes are base 3, five to a byte (3^5 = 243), the first trit lowest: 1.6 bits a weight.
A stream ends in the middle of a byte at most once per matrix.  Scales lie in their own type.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quantlm import tensorfile
from quantlm.model import Transformer
from quantlm.quantiser import TERNARY, Levels, Quantised, relative_error
from quantlm.weights import size

Bytes = NDArray[np.uint8]

TRITS_IN_BYTE = 5
_TRIT_WEIGHTS = 3 ** np.arange(TRITS_IN_BYTE, dtype=np.uint8)


def pack(layer: Quantised) -> dict[str, Tensor]:
    """`codes` and `zeros` as byte streams, `scales` as they are; `zeros` only if there are any."""
    levels = layer.levels
    parts = {"codes": _pack(layer.codes, levels), "scales": layer.scales.cpu()}
    if layer.zeros is not None:
        parts["zeros"] = _pack(layer.zeros, levels)
    return parts


def unpack(parts: Mapping[str, Tensor], levels: Levels, shape: torch.Size) -> Quantised:
    """The matrix of `shape` that `pack` packed."""
    scales = parts["scales"]
    zeros = _unpack(parts["zeros"], levels, scales.shape) if "zeros" in parts else None
    return Quantised(levels, _unpack(parts["codes"], levels, shape), scales, zeros)


def num_bytes(layer: Quantised) -> int:
    """Exact size of a packed matrix: codes, scales and zero points."""
    return sum(part.numel() * part.element_size() for part in pack(layer).values())


def save_packed(file: BinaryIO, layers: Mapping[str, Quantised], *, fingerprint: str) -> None:
    """Write packed matrices as `<name>.codes`, `<name>.scales` and `<name>.zeros`."""
    tensors = {
        f"{name}.{part}": tensor
        for name, layer in layers.items()
        for part, tensor in pack(layer).items()
    }
    described = {
        name: {"levels": asdict(layer.levels), "shape": list(layer.codes.shape)}
        for name, layer in layers.items()
    }
    tensorfile.write(file, tensors, {"fingerprint": fingerprint, "layers": described})


def save_values(
    file: BinaryIO, model: Transformer, layers: Mapping[str, Quantised], *, fingerprint: str
) -> None:
    """Write the weights of a model whose named matrices are replaced by what their codes stand for.

    The model itself keeps its weights.
    """
    values = {f"{name}.weight": layer.values() for name, layer in layers.items()}
    tensors = dict(model.named_parameters()) | values
    tensorfile.write(file, tensors, {"fingerprint": fingerprint})


def summary(model: Transformer, layers: Mapping[str, Quantised]) -> dict[str, Any]:
    """What a record says about a form: exact size, and how far the matrices moved."""
    packed = {name: num_bytes(layer) for name, layer in layers.items()}
    return {"size": size(model, packed), "relative_error": relative_error(model, layers)}


def load_packed(path: Path) -> dict[str, Quantised]:
    """The matrices that `save_packed` wrote, by name."""
    tensors, header = tensorfile.read(path)
    return {
        name: unpack(
            {part: tensors[key] for part in _PARTS if (key := f"{name}.{part}") in tensors},
            Levels(**described["levels"]),
            torch.Size(described["shape"]),
        )
        for name, described in header["layers"].items()
    }


_PARTS = ("codes", "scales", "zeros")


def _pack(codes: Tensor, levels: Levels) -> Tensor:
    offsets = (codes.cpu().to(torch.int16) - levels.qmin).to(torch.uint8).numpy().ravel()
    stream = _trits(offsets) if levels.bits == TERNARY else _bits(offsets, int(levels.bits))
    return torch.from_numpy(stream)


def _unpack(stream: Tensor, levels: Levels, shape: torch.Size) -> Tensor:
    taken, count = stream.numpy(), shape.numel()
    ternary = levels.bits == TERNARY
    offsets = _from_trits(taken, count) if ternary else _from_bits(taken, int(levels.bits), count)
    return (torch.from_numpy(offsets).to(torch.int16) + levels.qmin).to(torch.int8).reshape(shape)


def _bits(offsets: Bytes, bits: int) -> Bytes:
    columns = (offsets[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(columns, bitorder="little")


def _from_bits(stream: Bytes, bits: int, count: int) -> Bytes:
    columns = np.unpackbits(stream, count=bits * count, bitorder="little").reshape(count, bits)
    return np.packbits(columns, axis=1, bitorder="little")[:, 0]


def _trits(offsets: Bytes) -> Bytes:
    padded = np.zeros(-(-offsets.size // TRITS_IN_BYTE) * TRITS_IN_BYTE, dtype=np.uint8)
    padded[: offsets.size] = offsets
    return padded.reshape(-1, TRITS_IN_BYTE) @ _TRIT_WEIGHTS


def _from_trits(stream: Bytes, count: int) -> Bytes:
    return (stream[:, None] // _TRIT_WEIGHTS % 3).reshape(-1)[:count]
