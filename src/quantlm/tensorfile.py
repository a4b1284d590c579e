"""Tensors in safetensors: data with a header, nothing that can be executed.

Our metadata is one JSON string under one key, because safetensors writes several keys in random
order and equal contents must be equal bytes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

WEIGHTS_FILE = "weights.safetensors"
STATE_FILE = "state.safetensors"
PACKED_FILE = "packed.safetensors"

_KEY = "quantlm"
_DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.uint8: "U8"}


def write(file: BinaryIO, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors, from any device, and a header of JSON values."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    file.write(save(whole, {_KEY: json.dumps(dict(header), sort_keys=True, allow_nan=False)}))


def header_bytes(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> bytes:
    """What stands before the data of tensors that follow in this order, without gaps.

    The format: 8 bytes of length, little-endian, then JSON padded with blanks to whole 8 bytes
    (https://github.com/huggingface/safetensors#format).
    """
    entries: dict[str, Any] = {
        "__metadata__": {_KEY: json.dumps(dict(header), sort_keys=True, allow_nan=False)}
    }
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        entries[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_header(path: Path) -> dict[str, Any]:
    """The header that `write` wrote.

    Raises:
        ValueError: when the file carries none.
        safetensors.SafetensorError: when it is not a safetensors file.
    """
    with safe_open(path, framework="pt") as file:
        return _header(path, file.metadata() or {})


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the CPU, and the header that `write` wrote.

    Raises:
        ValueError: when the file carries no header of ours.
        safetensors.SafetensorError: when it is not a safetensors file.
    """
    with safe_open(path, framework="pt") as file:
        header = _header(path, file.metadata() or {})
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118


def _header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise ValueError(
            f"{path.name} was not written by quantlm: expected the metadata key {_KEY!r}; "
            f"seen {sorted(metadata)}"
        )
    header: dict[str, Any] = json.loads(metadata[_KEY])
    return header
