"""Small floats that share scales: MXFP4, NVFP4 and FP8.

An E2M1 code is sign, two bits of exponent, one of mantissa: the index of its magnitude in `E2M1`,
plus 8 when negative.  An E4M3 code is the byte of torch's float8_e4m3fn.  A value is the element
times the scale of its group times, for NVFP4, the scale of the whole matrix.

Shape suffixes: O outputs, I inputs of a matrix; R rows of scales, G groups in a row, K weights in a
group (a tensor is one row of one group; a row is one group).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from quantlm import bitstream

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
"""Magnitudes of OCP microscaling's FP4 (QU 4)."""
E2M1_MAX = 6.0
E4M3_MAX = 448.0
E4M3_LEAST = 2.0**-6
"""Smallest normal number of E4M3: the least scale of a group in NVFP4, as in torchao."""
LEAST_WHOLE = 2.0**-100
"""Scale of a matrix of zeros: its reciprocal is still a number."""
E8M0_BIAS = 127
NVFP4_GROUP = 16
MXFP4_GROUP = 32

_WIDTHS = {"e2m1": 4, "e4m3": 8}
_MIDPOINTS = (E2M1[1:] + E2M1[:-1]) / 2


@dataclass(frozen=True, slots=True)
class SmallFloats:
    """A matrix of small floats.

    Args:
        element: `e2m1` or `e4m3`.
        codes: Codes (O, I), uint8.
        scales: Stored scales (R, G): uint8 exponents with a bias of 127 (E8M0), float8_e4m3fn, or
            an ordinary float type.
        whole: Scale of the matrix, float32 of shape (1), or None.
    """

    element: str
    codes: Tensor
    scales: Tensor
    whole: Tensor | None = None

    def values(self) -> Tensor:
        """The weights (O, I), float32, that the codes stand for."""
        scales_RG = widened(self.scales)
        if self.whole is not None:
            scales_RG = scales_RG * self.whole
        rows, groups = scales_RG.shape
        blocks_RGK = _decode(self.codes, self.element).reshape(rows, groups, -1)
        return (blocks_RGK * scales_RG.unsqueeze(-1)).reshape(self.codes.shape)

    def pack(self) -> dict[str, Tensor]:
        """`codes` as a stream, `scales` and `whole` as they are; no `whole` if there is none."""
        parts = {
            "codes": bitstream.pack(self.codes, _WIDTHS[self.element]),
            "scales": self.scales.cpu(),
        }
        return parts if self.whole is None else parts | {"whole": self.whole.cpu()}

    def describe(self) -> dict[str, Any]:
        """Element, shape and the names of the parts."""
        return {
            "kind": "smallfloats",
            "element": self.element,
            "shape": list(self.codes.shape),
            "parts": ["codes", "scales", *([] if self.whole is None else ["whole"])],
        }

    @classmethod
    def unpack(cls, parts: Mapping[str, Tensor], described: Mapping[str, Any]) -> Self:
        """The matrix that `pack` packed and `describe` described."""
        element, shape = described["element"], torch.Size(described["shape"])
        codes = bitstream.unpack(parts["codes"], _WIDTHS[element], shape)
        return cls(element, codes, parts["scales"], parts.get("whole"))


def mxfp4(weight_OI: Tensor) -> SmallFloats:
    """E2M1 in groups of 32 with a power of two each: floor(log2 absmax) - 2 (OCP MX v1.0, 6.3).

    The largest magnitude of a group lies in [4, 8) steps, and above 6 it saturates.
    """
    blocks_RGK = _blocks(weight_OI, MXFP4_GROUP)
    _, exponents_RG = torch.frexp(_absmax(blocks_RGK))  # absmax = m 2^e with m in [1/2, 1)
    biased = (exponents_RG - 3 + E8M0_BIAS).clamp(0, 254).to(torch.uint8)
    # a group of zeros has no exponent: the least one, as in torchao and gguf
    biased = torch.where(_absmax(blocks_RGK) > 0, biased, torch.zeros_like(biased))
    steps = blocks_RGK / widened(biased).unsqueeze(-1)
    return SmallFloats("e2m1", encode_e2m1(steps).reshape(weight_OI.shape), biased)


def nvfp4(weight_OI: Tensor) -> SmallFloats:
    """E2M1 in groups of 16 with an E4M3 scale each, and one float32 scale for the matrix.

    The matrix's scale lets the largest group use the largest E4M3 number: absmax / (448 x 6), as
    in torchao and NVIDIA's recipe.
    """
    blocks_RGK = _blocks(weight_OI, NVFP4_GROUP)
    largest_RG = _absmax(blocks_RGK)
    whole = (largest_RG.amax() / (E4M3_MAX * E2M1_MAX)).clamp(min=LEAST_WHOLE).reshape(1)
    relative_RG = (largest_RG / E2M1_MAX / whole).clamp(E4M3_LEAST, E4M3_MAX)
    scales_RG = relative_RG.to(torch.float8_e4m3fn)
    steps = blocks_RGK * ((1.0 / whole) / scales_RG.float()).unsqueeze(-1)
    return SmallFloats("e2m1", encode_e2m1(steps).reshape(weight_OI.shape), scales_RG, whole)


def fp8(blocks_RGK: Tensor, shape: torch.Size, stored: torch.dtype) -> SmallFloats:
    """E4M3 with absmax / 448 as the scale of a group, rounded to its stored type first.

    Args:
        blocks_RGK: The matrix in groups that share a scale.
        shape: Shape (O, I) of the matrix.
        stored: Type of the scales.
    """
    least = torch.finfo(stored).smallest_normal
    scales_RG = (_absmax(blocks_RGK) / E4M3_MAX).clamp(min=least).to(stored)
    steps = (blocks_RGK / scales_RG.float().unsqueeze(-1)).clamp(-E4M3_MAX, E4M3_MAX)
    codes = steps.to(torch.float8_e4m3fn).view(torch.uint8)
    return SmallFloats("e4m3", codes.reshape(shape), scales_RG)


def encode_e2m1(steps: Tensor) -> Tensor:
    """Nearest codes of numbers in steps; ties go to the even mantissa, beyond 6 they saturate."""
    magnitudes, midpoints = steps.abs(), _MIDPOINTS.to(steps.device)
    below = torch.bucketize(magnitudes, midpoints)  # a tie counts to the magnitude below it
    tied = magnitudes == midpoints[below.clamp(max=len(midpoints) - 1)]
    index = below + (tied & (below % 2 == 1))
    return (index + 8 * torch.signbit(steps)).to(torch.uint8)


def widened(scales: Tensor) -> Tensor:
    """Stored scales as float32."""
    if scales.dtype == torch.uint8:
        ones = torch.ones_like(scales, dtype=torch.float32)
        return torch.ldexp(ones, scales.to(torch.int32) - E8M0_BIAS)
    return scales.float()


def _decode(codes: Tensor, element: str) -> Tensor:
    if element == "e4m3":
        return codes.view(torch.float8_e4m3fn).float()
    magnitudes = E2M1.to(codes.device)[(codes & 7).long()]
    return torch.where(codes > 7, -magnitudes, magnitudes)


def _blocks(weight_OI: Tensor, group: int) -> Tensor:
    outputs, inputs = weight_OI.shape
    if inputs % group:
        raise ValueError(f"groups of {group} do not divide rows of {inputs} weights")
    return weight_OI.float().reshape(outputs, inputs // group, group)


def _absmax(blocks_RGK: Tensor) -> Tensor:
    return blocks_RGK.abs().amax(-1)
