"""Packed matrices back from their files: for readers and tests; no stage imports it."""

from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from quantlm import tensorfile
from quantlm.layer import Layer
from quantlm.quantiser import Quantised
from quantlm.smallfloats import SmallFloats


class Kind(Protocol):
    """A class of layers that can be made again from what it packed and described."""

    def unpack(self, parts: dict[str, Tensor], described: dict[str, Any]) -> Layer:
        """The layer that these parts and this description came from."""


KINDS: dict[str, Kind] = {"levels": Quantised, "smallfloats": SmallFloats}


def load_packed(path: Path) -> dict[str, Layer]:
    """The matrices that `packing.save_packed` wrote, by name.

    Raises:
        ValueError: for a file of other layers than this source knows.
    """
    tensors, header = tensorfile.read(path)
    layers: dict[str, Layer] = {}
    for name, described in header["layers"].items():
        if described["kind"] not in KINDS:
            raise ValueError(
                f"{path.name} holds {name} as {described['kind']!r}; known are {sorted(KINDS)}"
            )
        parts = {part: tensors[f"{name}.{part}"] for part in described["parts"]}
        layers[name] = KINDS[described["kind"]].unpack(parts, described)
    return layers
