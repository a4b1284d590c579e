"""Small floats equal those of torchao and gguf, bit for bit, and pack to the byte.

torchao costs seconds: it is imported by the tests that compare with it, not by every worker.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from torch import Tensor

from memory_corpus import form
from quantgrid.load import load_model
from quantgrid.spec import resolved
from quantlm import packing, smallfloats
from quantlm.methods import fp8, mxfp, nvfp
from quantlm.methods import gguf as gguf_method
from quantlm.model import Architecture, build
from quantlm.quantiser import Levels
from quantlm.smallfloats import E2M1, SmallFloats, encode_e2m1
from quantlm.unpacking import load_packed


def _weights() -> Iterator[Tensor]:
    """Ordinary weights, outliers, a row of zeros, tiny and huge magnitudes."""
    source = torch.Generator().manual_seed(0)
    normal = torch.randn(96, 256, generator=source) * 0.02
    yield normal
    yield normal * (1 + 30 * (torch.rand(96, 256, generator=source) < 0.003))
    with_zeros = normal.clone()
    with_zeros[3] = 0
    with_zeros[5, :32] = 0
    yield with_zeros
    yield normal * torch.logspace(-6, 5, 96).unsqueeze(1)


def test_mxfp4_equals_torchao_and_gguf() -> None:
    """Scales and values are torchao's (mode floor) and gguf's."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    kind = gguf.GGMLQuantizationType.MXFP4
    for weight in _weights():
        reference = MXTensor.to_mx(weight, torch.float4_e2m1fn_x2, 32)
        blob = gguf.quants.quantize(weight.numpy(), kind)

        ours = smallfloats.mxfp4(weight)

        assert torch.equal(ours.values(), reference.dequantize(torch.float32))
        assert torch.equal(ours.values(), torch.from_numpy(gguf.quants.dequantize(blob, kind)))
        assert torch.equal(ours.scales, reference.scale.view(torch.uint8).reshape(96, 8))


def test_nvfp4_equals_torchao() -> None:
    """Scales of groups and values are torchao's under its scale of the matrix."""
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    for weight in _weights():
        whole = weight.abs().amax() / (448 * 6)
        reference = NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=whole)

        ours = smallfloats.nvfp4(weight)

        assert torch.equal(ours.values(), reference.dequantize(torch.float32))
        assert torch.equal(ours.scales.float(), reference.scale.float().reshape(96, 16))
        assert ours.whole is not None
        assert ours.whole.item() == whole.item()


@pytest.mark.parametrize(("group", "block"), [("row", [1, 256]), ("tensor", [96, 256])])
def test_fp8_equals_torchao(group: str, block: list[int]) -> None:
    """Codes and values of E4M3 are torchao's, per row and per tensor."""
    from torchao.quantization.quant_primitives import (
        _choose_scale_float8,
        _dequantize_affine_float8,
        _quantize_affine_float8,
    )

    for weight in _weights():
        if not weight.abs().amax(1).all() and group == "row":
            continue  # a row of zeros has no scale in torchao: ours is tested below
        scale = _choose_scale_float8(weight, float8_dtype=torch.float8_e4m3fn, block_size=block)
        codes = _quantize_affine_float8(weight, scale, torch.float8_e4m3fn)
        levels = Levels(bits=8, group=group, rule="absmax")

        ours = smallfloats.fp8(
            weight.reshape(levels.blocks(weight.shape)), weight.shape, torch.float32
        )

        assert torch.equal(ours.codes, codes.view(torch.uint8))
        assert torch.equal(ours.values(), _dequantize_affine_float8(codes, scale, torch.float32))


def test_e2m1_takes_the_nearest_magnitude_and_the_even_one_at_a_tie() -> None:
    """Every magnitude is its own code; each tie goes to the even code; beyond 6 is 6."""
    ties = (E2M1[1:] + E2M1[:-1]) / 2

    assert encode_e2m1(E2M1).tolist() == list(range(8))
    assert encode_e2m1(-E2M1).tolist() == list(range(8, 16))
    assert encode_e2m1(ties).tolist() == [0, 2, 2, 4, 4, 6, 6]
    assert encode_e2m1(torch.nextafter(ties, torch.tensor(9.0))).tolist() == list(range(1, 8))
    assert encode_e2m1(torch.nextafter(ties, torch.tensor(0.0))).tolist() == list(range(7))
    assert encode_e2m1(torch.tensor([7.9, 1e9, -50.0])).tolist() == [7, 7, 15]


def test_values_are_zero_when_a_matrix_is_zero() -> None:
    """No division by zero, and no NaN, in any format."""
    nothing = torch.zeros(4, 64)
    blocks = nothing.reshape(4, 1, 64)
    for layer in (
        smallfloats.mxfp4(nothing),
        smallfloats.nvfp4(nothing),
        smallfloats.fp8(blocks, nothing.shape, torch.float16),
        gguf_method.q8_0(nothing, Levels(bits=8, group=32, rule="absmax")),
    ):
        assert torch.equal(layer.values(), nothing)


def test_formats_refuse_when_a_group_does_not_divide_a_row() -> None:
    """Rows of 40 hold no whole groups of 32 or 16."""
    for make in (smallfloats.mxfp4, smallfloats.nvfp4):
        with pytest.raises(ValueError, match="do not divide rows of 40"):
            make(torch.zeros(2, 40))


def test_q8_0_equals_gguf_to_the_byte() -> None:
    """The blocks of a GGUF file can be put together from our codes and scales."""
    for weight in _weights():
        blob = gguf.quants.quantize(weight.numpy(), gguf.GGMLQuantizationType.Q8_0)

        ours = gguf_method.q8_0(weight, Levels(bits=8, group=32, rule="absmax"))

        scales = ours.scales.reshape(-1, 1).view(torch.uint8)
        mine = torch.cat([scales, ours.codes.reshape(-1, 32).view(torch.uint8)], 1)
        assert torch.equal(mine, torch.from_numpy(blob.reshape(-1, 34)))


MADE: list[tuple[Any, dict[str, Any], int]] = [
    (mxfp, form("mxfp", 4, 32, "floor") | {"scale_dtype": "e8m0"}, 565_760),
    (nvfp, form("nvfp", 4, 16, "absmax") | {"scale_dtype": "e4m3"}, 599_040 + 35 * 4),
    (fp8, form("fp8", 8, "tensor", "absmax") | {"scale_dtype": "float32"}, 1_064_960 + 35 * 4),
    (gguf_method, form("gguf", 8, 32, "absmax"), 1_064_960 * 34 // 32),
]


@pytest.mark.parametrize(("method", "settings", "expected"), MADE)
def test_file_holds_the_values_and_has_the_size_when_n1(
    root: Path, tmp_path: Path, method: Any, settings: dict[str, Any], expected: int
) -> None:
    """Sizes of QU 4 to the byte, and the packed file gives the measured values bit for bit."""
    model = build(Architecture.of(resolved(load_model(root, "n1"))), 0)
    layers = method.quantise(model, settings, lambda _: torch.empty(0))
    with (tmp_path / "packed").open("wb") as file:
        packing.save_packed(file, layers, fingerprint="f")

    unpacked = load_packed(tmp_path / "packed")

    assert packing.summary(model, layers)["size"]["packed_bytes"] == expected
    assert unpacked.keys() == layers.keys()
    for name, layer in layers.items():
        assert torch.equal(unpacked[name].values(), layer.values())


def test_load_packed_refuses_when_a_kind_is_unknown(tmp_path: Path) -> None:
    """A file of a newer source names what it holds, instead of being misread."""

    class Newer(SmallFloats):
        def describe(self) -> dict[str, Any]:
            return super().describe() | {"kind": "newer"}

    layer = smallfloats.mxfp4(torch.ones(1, 32))
    with (tmp_path / "p").open("wb") as file:
        packing.save_packed(
            file, {"x": Newer(layer.element, layer.codes, layer.scales)}, fingerprint="f"
        )

    with pytest.raises(ValueError, match="holds x as 'newer'; known are"):
        load_packed(tmp_path / "p")
