"""Integer and ternary levels: scales, codes, and the values that codes stand for.

A value is `(code - zero) * scale`, or half a step more where a rule says so.  Scales are rounded to
their stored type before codes are computed, so that what is packed is what was measured.  Rules of
the scale, per group of weights:

    noclip      max(max / qmax, min / qmin)     torchao SYMMETRIC_NO_CLIPPING_ERR
    absmax      absmax / qmax                   narrow: the code qmin is not used; gguf Q8_0
    symmetric   absmax / ((2^bits - 1) / 2)     torchao SYMMETRIC, compressed-tensors: the largest
                                                weight lies on a rounding tie, kept to compare
    asymmetric  (max - min) / (2^bits - 1)      with a zero point; torchao ASYMMETRIC
    absmean     mean |weight|                   ternary codes -1, 0, 1; BitNet b1.58
    gaussian    2 clip rms / (2^bits - 1)       values (code + 1/2) * scale, without a zero; ternary
                                                clip rms; the clip is the MSE optimum (QuEST)
    learned     2 mean |weight| / sqrt(qmax)    where LSQ (1902.08153) starts; training moves it

Shape suffixes: O outputs, I inputs of a matrix; R rows of scales, G groups in a row, K weights in
a group (a tensor is one row of one group; a row is one group).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

from quantlm import bitstream

Calibration = Callable[[int], Tensor]
"""Gives that many training sequences, tokens (B, context + 1)."""

SCALE_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
INTEGER_RULES = ("noclip", "absmax", "symmetric", "asymmetric", "gaussian", "learned")
TERNARY_RULES = ("absmean", "gaussian", "learned")
TERNARY = "ternary"

GAUSSIAN_CLIPS: dict[int | str, float] = {
    TERNARY: 1.2240,
    2: 1.4935,
    3: 2.0511,
    4: 2.5139,
    5: 2.9161,
    6: 3.2766,
    8: 3.8849,
}
"""Largest value over rms with the least square error on normal weights (QuEST 2502.05003, QU 4)."""

SMALLEST_SCALE = 2.0**-23
"""Scale of a group of zeros; the same number in every type of `SCALE_DTYPES`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """Which values a weight may take.

    Args:
        bits: Width of a code, 2 to 8, or `ternary`.
        group: Weights that share a scale: `tensor`, `row` or how many inputs of a row.
        rule: One of `INTEGER_RULES`, or of `TERNARY_RULES` if ternary.
        scale_dtype: A key of `SCALE_DTYPES`.

    Raises:
        ValueError: for levels that cannot be meant.
    """

    bits: int | str
    group: int | str
    rule: str
    scale_dtype: str = "float16"

    def __post_init__(self) -> None:
        known_bits = self.bits == TERNARY or self.bits in range(2, 9)
        known_group = self.group in {"tensor", "row"} or isinstance(self.group, int)
        known_rule = self.rule in (TERNARY_RULES if self.bits == TERNARY else INTEGER_RULES)
        if self.rule == "gaussian" and self.bits not in GAUSSIAN_CLIPS:
            known_bits = False
        if not (known_bits and known_group and known_rule and self.scale_dtype in SCALE_DTYPES):
            raise ValueError(
                f"levels need 2 to 8 bits with a rule of {INTEGER_RULES} (gaussian not with 7), or "
                f"ternary with one of {TERNARY_RULES}; "
                f"group tensor, row or a number; scales of {sorted(SCALE_DTYPES)}; seen {self}"
            )

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> Self:
        """The levels of a resolved form."""
        rule = "asymmetric" if form["asymmetric"] else form["scale"]
        return cls(
            bits=form["bits"], group=form["group"], rule=rule, scale_dtype=form["scale_dtype"]
        )

    @property
    def qmin(self) -> int:
        """Smallest code."""
        return -1 if isinstance(self.bits, str) else -(2 ** (self.bits - 1))

    @property
    def qmax(self) -> int:
        """Largest code."""
        return 1 if isinstance(self.bits, str) else 2 ** (self.bits - 1) - 1

    @property
    def shift(self) -> float:
        """What is added to a code: half a step where the levels lie around zero without it."""
        return 0.5 if self.rule == "gaussian" and self.bits != TERNARY else 0.0

    @property
    def width(self) -> int | str:
        """How wide a packed code is."""
        return bitstream.TRITS if isinstance(self.bits, str) else self.bits

    def blocks(self, shape: torch.Size) -> tuple[int, int, int]:
        """The view (R, G, K) of a matrix of `shape` whose last axis shares a scale.

        Raises:
            ValueError: when a group does not divide a row.
        """
        outputs, inputs = shape
        if self.group == "tensor":
            return 1, 1, outputs * inputs
        width = inputs if self.group == "row" else int(self.group)
        if inputs % width:
            raise ValueError(f"groups of {width} do not divide rows of {inputs} weights")
        return outputs, inputs // width, width


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised matrix: int8 codes (O, I), scales (R, G), int8 zero points (R, G) or None."""

    levels: Levels
    codes: Tensor
    scales: Tensor
    zeros: Tensor | None

    def values(self) -> Tensor:
        """The weights (O, I), float32, that the codes stand for."""
        scale, zero = spread(self.levels, self.codes.shape, self.scales, self.zeros)
        return decode(self.codes, scale, zero, self.levels)

    def pack(self) -> dict[str, Tensor]:
        """`codes` and `zeros` as streams from qmin up, `scales` as they are; no `zeros` if none."""
        parts = {"codes": self._stream(self.codes), "scales": self.scales.cpu()}
        return parts if self.zeros is None else parts | {"zeros": self._stream(self.zeros)}

    def describe(self) -> dict[str, Any]:
        """Levels, shape and the names of the parts."""
        shape, parts = list(self.codes.shape), ["codes", "scales"]
        return {
            "kind": "levels",
            "levels": asdict(self.levels),
            "shape": shape,
            "parts": parts if self.zeros is None else [*parts, "zeros"],
        }

    @classmethod
    def unpack(cls, parts: Mapping[str, Tensor], described: Mapping[str, Any]) -> Self:
        """The matrix that `pack` packed and `describe` described."""
        levels, scales = Levels(**described["levels"]), parts["scales"]

        def codes(name: str, shape: torch.Size) -> Tensor:
            offsets = bitstream.unpack(parts[name], levels.width, shape)
            return (offsets.to(torch.int16) + levels.qmin).to(torch.int8)

        zeros = codes("zeros", scales.shape) if "zeros" in parts else None
        return cls(levels, codes("codes", torch.Size(described["shape"])), scales, zeros)

    def _stream(self, codes: Tensor) -> Tensor:
        return bitstream.pack(codes.to(torch.int16) - self.levels.qmin, self.levels.width)


def quantise(weight_OI: Tensor, levels: Levels) -> Quantised:
    """Round a matrix to its nearest levels."""
    scales, zeros = fit(weight_OI, levels)
    codes = encode(weight_OI, *spread(levels, weight_OI.shape, scales, zeros), levels)
    return Quantised(levels, codes, scales, zeros)


def fit(weight_OI: Tensor, levels: Levels) -> tuple[Tensor, Tensor | None]:
    """Scales (R, G) in their stored type, and int8 zero points (R, G) if the rule has any.

    The zero point follows from the scale before rounding, as in torchao.
    """
    blocks_RGK = weight_OI.float().reshape(levels.blocks(weight_OI.shape))
    scales_RG = _scales(blocks_RGK, levels).clamp(min=SMALLEST_SCALE)
    zeros_RG = None
    if levels.rule == "asymmetric":
        low_RG = blocks_RGK.amin(-1).clamp(max=0)
        shifted = levels.qmin - (low_RG / scales_RG).round()
        zeros_RG = shifted.clamp(levels.qmin, levels.qmax).to(torch.int8)
    stored = scales_RG.to(SCALE_DTYPES[levels.scale_dtype])
    return stored, zeros_RG


def _scales(blocks_RGK: Tensor, levels: Levels) -> Tensor:
    low, high = blocks_RGK.amin(-1).clamp(max=0), blocks_RGK.amax(-1).clamp(min=0)
    match levels.rule:
        case "noclip":
            return torch.maximum(low / levels.qmin, high / levels.qmax)
        case "absmax":
            return torch.maximum(-low, high) / levels.qmax
        case "symmetric":
            return torch.maximum(-low, high) / ((levels.qmax - levels.qmin) / 2)
        case "asymmetric":
            return (high - low) / (levels.qmax - levels.qmin)
        case "gaussian":
            steps = 1 if levels.bits == TERNARY else (levels.qmax - levels.qmin) / 2
            clip: float = GAUSSIAN_CLIPS[levels.bits]
            return blocks_RGK.square().mean(-1).sqrt() * (clip / steps)
        case "learned":
            return 2 * blocks_RGK.abs().mean(-1) / math.sqrt(levels.qmax)
        case _:
            return blocks_RGK.abs().mean(-1)


def spread(
    levels: Levels, shape: torch.Size, scales_RG: Tensor, zeros_RG: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scale and zero point of every single weight, float32 (O, I)."""
    zeros_RG = torch.zeros_like(scales_RG) if zeros_RG is None else zeros_RG
    blocks = levels.blocks(shape)
    scales, zeros = (
        part.float().unsqueeze(-1).expand(blocks).reshape(shape) for part in (scales_RG, zeros_RG)
    )
    return scales, zeros


def encode(weight: Tensor, scale: Tensor, zero: Tensor, levels: Levels) -> Tensor:
    """Nearest int8 codes of weights, element by element; ties go to the even step.

    Integers multiply by the reciprocal (torchao quantize_affine), ternary divides (torchao
    bitnet): at a tie the two differ by a whole step.
    """
    ternary = levels.bits == TERNARY
    steps = weight.float() / scale if ternary else weight.float() * (1.0 / scale)
    nearest = (steps - levels.shift).round()
    return (nearest + zero).clamp(levels.qmin, levels.qmax).to(torch.int8)


def decode(codes: Tensor, scale: Tensor, zero: Tensor, levels: Levels) -> Tensor:
    """The values of codes, element by element, float32."""
    return (codes.float() - zero + levels.shift) * scale
