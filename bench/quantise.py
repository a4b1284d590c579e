"""RTN and GPTQ of one layer beside torchao and plain formulas, in CPU seconds and in error.

    python bench/quantise.py [--json] [--shapes 256x256,768x2048] [--repeats 5]

Three bits, groups of 32, scales that clip nothing, one thread, ways in turns, medians.  `plain` of
RTN divides, rounds and clamps in one line; torchao chooses scales and rounds by its primitives.
GPTQ has no peer that runs without a GPU (torchao 0.18 asserts CUDA, QU 0.4): `plain` is equation 2
of Frantar et al. 2210.17323, which solves a system for the weights that are left at each column.
`error` is the damage to the layer's output, |(W - Q) X|^2 / |W X|^2, on inputs with outliers.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torchao.quantization.quant_primitives import (
    MappingType,
    choose_qparams_affine,
    dequantize_affine,
    quantize_affine,
)

from quantlm import environment
from quantlm.methods.gptq import solve
from quantlm.quantiser import SMALLEST_SCALE, Levels, decode, encode, fit, quantise, spread

GROUP, BITS, DAMPING = 32, 3, 0.01
LEVELS = Levels(bits=BITS, group=GROUP, rule="noclip", scale_dtype="float32")
Way = Callable[[Tensor, Tensor], Tensor]


class Row(NamedTuple):
    """One way on one shape; `ratio` is its time beside ours for the same method."""

    shape: str
    method: str
    way: str
    cpu_ms: float
    ratio: float
    error: float


def rtn(weight_OI: Tensor, _: Tensor) -> Tensor:
    """Ours."""
    return quantise(weight_OI, LEVELS).values()


def rtn_torchao(weight_OI: Tensor, _: Tensor) -> Tensor:
    """The library's primitives."""
    rule, block = MappingType.SYMMETRIC_NO_CLIPPING_ERR, [1, GROUP]
    low, high = LEVELS.qmin, LEVELS.qmax
    scale, zero = choose_qparams_affine(
        weight_OI,
        rule,
        (1, GROUP),
        torch.int8,
        quant_min=low,
        quant_max=high,
        eps=SMALLEST_SCALE,
        scale_dtype=torch.float32,
        zero_point_dtype=torch.int8,
    )
    codes = quantize_affine(
        weight_OI, block, scale, zero, torch.int8, quant_min=low, quant_max=high
    )
    return dequantize_affine(codes, block, scale, zero, torch.int8, quant_min=low, quant_max=high)


def rtn_plain(weight_OI: Tensor, _: Tensor) -> Tensor:
    """The formula, without storage."""
    blocks = weight_OI.view(weight_OI.shape[0], -1, GROUP)
    high, low = blocks.amax(2, keepdim=True), blocks.amin(2, keepdim=True)
    scale = torch.maximum(high / LEVELS.qmax, low / LEVELS.qmin).clamp_min(SMALLEST_SCALE)
    codes = (blocks / scale).round().clamp(LEVELS.qmin, LEVELS.qmax)
    return (codes * scale).view_as(weight_OI)


def gptq(weight_OI: Tensor, hessian_II: Tensor) -> Tensor:
    """Ours: one factor, corrections in blocks of columns."""
    return solve(weight_OI, hessian_II, LEVELS, act_order=False, damping=DAMPING).values()


def gptq_plain(weight_OI: Tensor, hessian_II: Tensor) -> Tensor:
    """The definition: after each column, the best weights for those that are left."""
    scale_OI, zero_OI = spread(LEVELS, weight_OI.shape, *fit(weight_OI, LEVELS))
    damped = hessian_II.double().clone()
    damped.diagonal().add_(DAMPING * damped.diagonal().mean())
    left, done = weight_OI.double().clone(), torch.empty_like(weight_OI, dtype=torch.float64)
    for column in range(weight_OI.shape[1]):
        place = scale_OI[:, column], zero_OI[:, column]
        done[:, column] = decode(encode(left[:, column], *place, LEVELS), *place, LEVELS)
        missed_O = left[:, column] - done[:, column]
        rest, cross = damped[column + 1 :, column + 1 :], damped[column, column + 1 :]
        if len(cross):
            left[:, column + 1 :] += torch.outer(missed_O, torch.linalg.solve(rest, cross))
    return done.float()


WAYS: dict[str, dict[str, Way]] = {
    "rtn": {"quantgrid": rtn, "torchao": rtn_torchao, "plain": rtn_plain},
    "gptq": {"quantgrid": gptq, "plain": gptq_plain},
}


def layer(outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """A matrix, and the Hessian of correlated inputs some of which are large."""
    source = torch.Generator().manual_seed(0)
    weight_OI = torch.randn(outputs, inputs, generator=source) * 0.02
    mixing = torch.eye(inputs) + 0.3 * torch.randn(inputs, inputs, generator=source) / inputs**0.5
    x = torch.randn(4 * inputs, inputs, generator=source) @ mixing
    x *= 1 + 9 * (torch.rand(inputs, generator=source) < 0.02)
    return weight_OI, (x.T @ x / len(x)).double()


def damage(weight_OI: Tensor, values_OI: Tensor, hessian_II: Tensor) -> float:
    """Squared error of the output over its squared norm."""

    def energy(each_OI: Tensor) -> float:
        return float((each_OI.double() @ hessian_II * each_OI).sum())

    return energy(weight_OI - values_OI) / energy(weight_OI)


def measured(outputs: int, inputs: int, repeats: int) -> list[Row]:
    """All ways on one shape; the quadratic `plain` GPTQ once only."""
    weight_OI, hessian_II = layer(outputs, inputs)
    rows = []
    for method, ways in WAYS.items():
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        values = {name: way(weight_OI, hessian_II) for name, way in ways.items()}
        for _ in range(repeats):
            for name, way in ways.items():
                if (method, name) == ("gptq", "plain") and seconds[name]:
                    continue
                begin = time.process_time()
                way(weight_OI, hessian_II)
                seconds[name].append(time.process_time() - begin)
        ours = statistics.median(seconds["quantgrid"])
        for name, each in seconds.items():
            middle, error = statistics.median(each), damage(weight_OI, values[name], hessian_II)
            shape = f"{outputs}x{inputs}"
            rows.append(Row(shape, method, name, 1e3 * middle, middle / ours, error))
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="192x64,256x256,768x768", help="outputs x inputs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    environment.prepare("cpu", 1)
    shapes = [tuple(map(int, each.split("x"))) for each in options.shapes.split(",")]
    rows = [row for shape in shapes for row in measured(*shape, options.repeats)]
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print(f"load {os.getloadavg()[0]:.0f}; medians of {options.repeats} turns, one thread")
    print(
        f"{'shape':<10} {'method':<6} {'way':<10} {'CPU ms':>10} {'beside ours':>12} {'error':>9}"
    )
    for row in rows:
        told = f"{row.cpu_ms:>10.2f} {row.ratio:>12.2f} {row.error:>9.5f}"
        print(f"{row.shape:<10} {row.method:<6} {row.way:<10} {told}")


if __name__ == "__main__":
    main()
