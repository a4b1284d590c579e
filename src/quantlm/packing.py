"""Quantised models in files, and what a record says of them."""

from collections.abc import Mapping
from typing import Any, BinaryIO

from quantlm import tensorfile
from quantlm.layer import Layer, num_bytes, relative_error
from quantlm.model import Transformer
from quantlm.weights import size


def save_packed(file: BinaryIO, layers: Mapping[str, Layer], *, fingerprint: str) -> None:
    """Write packed matrices part by part: `<name>.codes`, `<name>.scales` and the like."""
    tensors = {
        f"{name}.{part}": tensor
        for name, layer in layers.items()
        for part, tensor in layer.pack().items()
    }
    described = {name: layer.describe() for name, layer in layers.items()}
    tensorfile.write(file, tensors, {"fingerprint": fingerprint, "layers": described})


def save_values(
    file: BinaryIO, model: Transformer, layers: Mapping[str, Layer], *, fingerprint: str
) -> None:
    """Write the weights of a model whose named matrices are replaced by what their codes stand for.

    The model itself keeps its weights.
    """
    values = {f"{name}.weight": layer.values() for name, layer in layers.items()}
    tensors = dict(model.named_parameters()) | values
    tensorfile.write(file, tensors, {"fingerprint": fingerprint})


def summary(model: Transformer, layers: Mapping[str, Layer]) -> dict[str, Any]:
    """What a record says about a form: exact size, and how far the matrices moved."""
    packed = {name: num_bytes(layer) for name, layer in layers.items()}
    return {"size": size(model, packed), "relative_error": relative_error(model, layers)}
