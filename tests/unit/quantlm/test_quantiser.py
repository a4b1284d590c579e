"""Scales and codes equal those of torchao and gguf, bit for bit.

torchao costs seconds: it is imported by the tests that compare with it, not by every worker.
"""

from collections.abc import Iterator
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from memory_corpus import TINY, form
from quantlm.layer import put, relative_error
from quantlm.model import Architecture, build, linears
from quantlm.quantiser import SMALLEST_SCALE, Levels, quantise

RULES = {
    "symmetric": "SYMMETRIC",
    "noclip": "SYMMETRIC_NO_CLIPPING_ERR",
    "asymmetric": "ASYMMETRIC",
}
"""Rules, and what torchao calls them."""
BLOCKS: dict[int | str, tuple[int, int]] = {
    "row": (1, 256),
    "tensor": (96, 256),
    64: (1, 64),
    32: (1, 32),
}


def _weights() -> Iterator[Tensor]:
    """Ordinary weights, weights with outliers, and one-sided ones with a row of zeros."""
    source = torch.Generator().manual_seed(0)
    normal = torch.randn(96, 256, generator=source) * 0.02
    yield normal
    yield normal * (1 + 20 * (torch.rand(96, 256, generator=source) < 0.002))
    one_sided = normal.abs()
    one_sided[3] = 0
    yield one_sided


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("group", BLOCKS)
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_quantise_equals_torchao(bits: int, group: int | str, rule: str, dtype: str) -> None:
    """Scales, zero points, codes and values are torchao's.

    With float16, torchao chooses scales and zero points in float16; its codes are computed from
    those scales in float32, since it would divide in float16.
    """
    from torchao.quantization import quant_primitives as torchao

    stored = getattr(torch, dtype)
    levels = Levels(bits=bits, group=group, rule=rule, scale_dtype=dtype)
    limits: dict[str, Any] = {"quant_min": levels.qmin, "quant_max": levels.qmax}
    for weight in _weights():
        scale, zero = torchao.choose_qparams_affine(
            weight,
            torchao.MappingType[RULES[rule]],
            BLOCKS[group],
            torch.int8,
            eps=SMALLEST_SCALE,
            scale_dtype=stored,
            zero_point_dtype=torch.int8,
            **limits,
        )
        block, wide = list(BLOCKS[group]), scale.float()
        codes = torchao.quantize_affine(weight, block, wide, zero, torch.int8, **limits)
        values = torchao.dequantize_affine(codes, block, wide, zero, torch.int8, **limits)

        ours = quantise(weight, levels)

        assert torch.equal(ours.scales.flatten(), scale.flatten())
        assert ours.scales.dtype == stored
        assert torch.equal(ours.codes, codes)
        assert torch.equal(ours.values(), values)
        if ours.zeros is not None:
            assert torch.equal(ours.zeros.flatten(), zero.flatten())


def test_absmax_equals_gguf_when_8_bits_in_groups_of_32() -> None:
    """Q8_0: the same codes; its float16 scales are ours, rounded."""
    for weight in _weights():
        blob = gguf.quants.quantize(weight.numpy(), gguf.GGMLQuantizationType.Q8_0)
        blocks = blob.reshape(-1, 34)

        ours = quantise(weight, Levels(bits=8, group=32, rule="absmax", scale_dtype="float32"))

        used = ours.scales.flatten().numpy() > SMALLEST_SCALE
        theirs = blocks[:, :2].copy().view(np.float16).ravel()
        assert np.array_equal(blocks[:, 2:].view(np.int8), ours.codes.reshape(-1, 32).numpy())
        assert np.array_equal(theirs[used], ours.scales.flatten().half().numpy()[used])


def test_absmax_differs_from_gguf_in_few_codes_when_scales_are_rounded_first() -> None:
    """Codes from the stored float16 scale differ by one step at most, and reconstruct no worse."""
    weight = next(_weights())
    blob = gguf.quants.quantize(weight.numpy(), gguf.GGMLQuantizationType.Q8_0)
    theirs = blob.reshape(-1, 34)[:, 2:].view(np.int8)
    values = torch.from_numpy(gguf.quants.dequantize(blob, gguf.GGMLQuantizationType.Q8_0))

    ours = quantise(weight, Levels(bits=8, group=32, rule="absmax"))

    steps = np.abs(theirs.astype(int) - ours.codes.reshape(-1, 32).numpy())
    assert steps.max() <= 1
    assert 0 < (steps > 0).mean() < 0.02
    assert (ours.values() - weight).norm() <= (values - weight).norm()


def test_ternary_equals_torchao_bitnet() -> None:
    """S = mean |w| of the tensor; q = clip(round(w / s), -1, 1)."""
    from torchao.prototype.quantized_training.bitnet import (
        get_bitnet_scale,
        quantize_bitnet_weight,
    )

    levels = Levels(bits="ternary", group="tensor", rule="absmean", scale_dtype="float32")
    for weight in _weights():
        scale = get_bitnet_scale(weight)

        ours = quantise(weight, levels)

        assert ours.scales.item() == scale.item()
        assert torch.equal(ours.codes, quantize_bitnet_weight(weight, scale))
        assert torch.equal(ours.values(), ours.codes * scale)


def test_ternary_has_a_scale_per_row_when_asked() -> None:
    """Rows that differ in size get scales of their own."""
    weight = torch.tensor([[1.0, -1.0, 0.1, 0.0], [0.01, -0.02, 0.0, 0.01]])

    ours = quantise(weight, Levels(bits="ternary", group="row", rule="absmean"))

    assert ours.codes.tolist() == [[1, -1, 0, 0], [1, -1, 0, 1]]
    assert ours.scales.flatten().tolist() == pytest.approx([0.525, 0.01], rel=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_quantise_gives_zeros_when_a_group_is_zero(dtype: str) -> None:
    """A group of zeros has the smallest scale, and its values are zero, not NaN."""
    ours = quantise(torch.zeros(2, 32), Levels(bits=4, group=32, rule="noclip", scale_dtype=dtype))

    assert torch.equal(ours.values(), torch.zeros(2, 32))
    assert ours.scales.flatten().tolist() == [SMALLEST_SCALE] * 2


def test_levels_refuse_when_they_cannot_be_meant() -> None:
    """Bits, rules, groups and types that do not exist or do not go together are errors."""
    wrongs: tuple[dict[str, Any], ...] = (
        {"bits": 1, "group": "row", "rule": "noclip"},
        {"bits": 9, "group": "row", "rule": "noclip"},
        {"bits": 4, "group": "row", "rule": "absmean"},
        {"bits": "ternary", "group": "row", "rule": "noclip"},
        {"bits": 4, "group": "column", "rule": "noclip"},
        {"bits": 4, "group": "row", "rule": "clip"},
        {"bits": 4, "group": "row", "rule": "noclip", "scale_dtype": "float8"},
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match="levels need"):
            Levels(**wrong)
    with pytest.raises(ValueError, match="groups of 48 do not divide rows of 64"):
        quantise(torch.zeros(2, 64), Levels(bits=4, group=48, rule="noclip"))


def test_put_replaces_the_named_matrices_and_error_says_how_far() -> None:
    """The model takes the values; the error is the mean over layers of relative norms."""
    model = build(Architecture.of(TINY), 0)
    levels = Levels.of(form("rtn", 2, "row", None))
    layers = {name: quantise(x.weight.detach(), levels) for name, x in linears(model).items()}

    errors = [
        ((layer.values() - linears(model)[name].weight).norm() / linears(model)[name].weight.norm())
        for name, layer in layers.items()
    ]

    assert relative_error(model, layers) == pytest.approx(torch.stack(errors).mean().item())
    put(model, layers)
    assert relative_error(model, layers) == 0.0
