"""Tensors in safetensors: data with a header, nothing that can be executed.

Our metadata is one JSON string under one key, because safetensors writes several keys in random
order and equal contents must be equal bytes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

WEIGHTS_FILE = "weights.safetensors"
STATE_FILE = "state.safetensors"
PACKED_FILE = "packed.safetensors"

_KEY = "quantlm"


def write(file: BinaryIO, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors, from any device, and a header of JSON values."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    file.write(save(whole, {_KEY: json.dumps(dict(header), sort_keys=True, allow_nan=False)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the CPU, and the header that `write` wrote.

    Raises:
        ValueError: when the file carries no header of ours.
        safetensors.SafetensorError: when it is not a safetensors file.
    """
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if _KEY not in metadata:
            raise ValueError(
                f"{path.name} was not written by quantlm: expected the metadata key {_KEY!r}; "
                f"seen {sorted(metadata)}"
            )
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata[_KEY])  # noqa: SIM118
