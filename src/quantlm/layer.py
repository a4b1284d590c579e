"""What every quantised matrix can do, whatever its levels are."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from quantlm.model import Transformer, linears


class Layer(Protocol):
    """A quantised matrix.  A new kind of levels brings its own class and changes no other file."""

    def values(self) -> Tensor:
        """The weights (outputs, inputs), float32, that the codes stand for."""

    def pack(self) -> dict[str, Tensor]:
        """All that must be stored, as a deployed file would hold it: byte streams and scales."""

    def describe(self) -> dict[str, Any]:
        """What a reader needs besides, as JSON values; `kind` names the class in `unpacking`."""


@torch.no_grad()
def put(model: Transformer, layers: Mapping[str, Layer]) -> None:
    """Replace matrices of a model by the values of their quantised forms."""
    targets = linears(model)
    for name, layer in layers.items():
        targets[name].weight.copy_(layer.values())


@torch.no_grad()
def relative_error(model: Transformer, layers: Mapping[str, Layer]) -> float:
    """Mean over layers of |weight - value| / |weight|, Frobenius norms, before `put`.

    Zero when no matrix is quantised.
    """
    targets = linears(model)
    errors = [
        float((layer.values() - targets[name].weight).norm() / targets[name].weight.norm())
        for name, layer in layers.items()
    ]
    return sum(errors) / len(errors) if errors else 0.0


def num_bytes(layer: Layer) -> int:
    """Exact size of a packed matrix: codes, scales and whatever else must be stored."""
    return sum(part.numel() * part.element_size() for part in layer.pack().values())
