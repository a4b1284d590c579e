"""The weights of a model in a file, and how much room they take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from quantlm import tensorfile
from quantlm.model import Architecture, Transformer, linears

BYTES_16_BIT = 2


def save_weights(file: BinaryIO, model: Transformer, *, fingerprint: str) -> None:
    """Write the weights under the model's names, float32."""
    tensorfile.write(file, dict(model.named_parameters()), {"fingerprint": fingerprint})


def load_weights(path: Path, architecture: Architecture, device: torch.device) -> Transformer:
    """A model with the weights of a file.

    Raises:
        ValueError: when the file's names or shapes are not those of the architecture.
    """
    tensors, _ = tensorfile.read(path)
    model = Transformer(architecture)
    fill(dict(model.named_parameters()), tensors)
    return model.to(device)


@torch.no_grad()
def fill(targets: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values into tensors that exist (and are aligned, so that arithmetic is the same).

    Raises:
        ValueError: when names or shapes differ.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in targets.items()}
    given = {name: tuple(tensor.shape) for name, tensor in values.items()}
    if wanted != given:
        differing = sorted(set(wanted.items()) ^ set(given.items()))
        raise ValueError(f"these tensors are not those of the model: {differing[:6]}")
    for name, tensor in targets.items():
        tensor.copy_(values[name])


def size(model: Transformer, packed: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Exact bytes of a model on disk.

    Args:
        model: Says how many weights there are.
        packed: Bytes of each quantised matrix, scales and zero points included; what is not
            named counts at 16 bits, as do embedding, head and norms.
    """
    packed = packed or {}
    matrices = {name: linear.weight.numel() for name, linear in linears(model).items()}
    num_weights = sum(matrices.values())
    packed_bytes = sum(packed.get(name, BYTES_16_BIT * n) for name, n in matrices.items())
    everything = sum(weight.numel() for weight in model.parameters())
    other_bytes = BYTES_16_BIT * (everything - num_weights)
    return {
        "weights": num_weights,
        "quantised_weights": sum(n for name, n in matrices.items() if name in packed),
        "packed_bytes": packed_bytes,
        "other_bytes": other_bytes,
        "total_bytes": packed_bytes + other_bytes,
        "bits_per_weight": 8 * packed_bytes / num_weights,
    }
