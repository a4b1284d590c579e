"""The damage law of a grid: how damage grows with tokens and falls with bits.

Kumar et al. 2411.04330: delta = k D^gD / N^gN exp(-P / gP), with D tokens, N parameters, P bits.
It is fitted to all widths of one way to quantise, as a straight line in logarithms, over the
budgets at which damage is told from zero; N takes part when the grid has several sizes.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from quantgrid.report.laws import TRAINED_ENOUGH
from quantgrid.report.records import Grid, Measured
from quantgrid.report.stats import Z_THRESHOLD, damage
from quantgrid.spec import Form

PUBLISHED = {"gamma_d": 0.507, "gamma_n": 0.344, "gamma_post": 0.591}
"""Kumar et al. 2411.04330: 465 models of 30 to 220 M parameters, as the research quotes them."""


@dataclass(frozen=True, slots=True)
class Point:
    """Damage in nats per token of one form of one model at one length, mean over seeds."""

    bits: float
    tokens: float
    parameters: float
    damage: float
    family: str = ""


@dataclass(frozen=True, slots=True)
class DamageLaw:
    """A fitted law; `gamma_n` is None when all points are of one size, and `k` then holds N."""

    k: float
    gamma_d: float
    gamma_n: float | None
    gamma_post: float
    r_squared: float
    num_points: int

    def damage(self, bits: float, tokens: float, parameters: float) -> float:
        """Nats per token that the law predicts."""
        exponent = self.gamma_d * math.log(tokens) - bits / self.gamma_post
        return self.k * math.exp(exponent - (self.gamma_n or 0.0) * math.log(parameters))


def find_law(points: Sequence[Point]) -> DamageLaw | None:
    """The least-squares law of log damage; None when the points do not fix it.

    They must hold two widths and two lengths, positive damage, and one point more than constants.
    """
    sized = len({point.parameters for point in points}) > 1
    varied = [{point.bits for point in points}, {point.tokens for point in points}]
    if any(len(values) < 2 for values in varied) or len(points) < 4 + sized:
        return None
    columns = [
        [1.0, math.log(p.tokens), -p.bits, *([-math.log(p.parameters)] if sized else [])]
        for p in points
    ]
    logs = np.log([point.damage for point in points])
    constants, _, rank, _ = np.linalg.lstsq(np.array(columns), logs, rcond=None)
    if rank < len(constants) or constants[2] <= 0:
        return None
    missed = logs - np.array(columns) @ constants
    r_squared = 1 - float(missed @ missed) / float(np.sum((logs - logs.mean()) ** 2))
    return DamageLaw(
        k=math.exp(float(constants[0])),
        gamma_d=float(constants[1]),
        gamma_n=float(constants[3]) if sized else None,
        gamma_post=1 / float(constants[2]),
        r_squared=r_squared,
        num_points=len(points),
    )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A law with the way to quantise that it is of: `RTN row noclip`, and its variants."""

    name: str
    variants: tuple[str, ...]
    law: DamageLaw


def fitted(grid: Grid) -> list[Fitted]:
    """A law for every way to quantise that the grid has enough of."""
    ways: dict[str, list[str]] = defaultdict(list)
    for variant, form in grid.forms().items():
        if _is_weight_only(form):
            ways[_way(form)].append(variant)
    laws = (
        (name, variants, find_law(list(points(grid, variants)))) for name, variants in ways.items()
    )
    return [Fitted(name, tuple(variants), law) for name, variants, law in laws if law]


def _is_weight_only(form: Form) -> bool:
    return isinstance(form.bits, int) and form.activation_bits is None and form.kv_bits is None


def _way(form: Form) -> str:
    group = f"g{form.group}" if isinstance(form.group, int) else str(form.group)
    rule = "asym" if form.asymmetric else str(form.scale)
    start = " scratch" if form.start != "cooldown" else ""
    return f"{form.method.upper()} {group} {rule}{start}"


def points(grid: Grid, variants: Iterable[str]) -> Iterator[Point]:
    """Damage of these variants wherever it is told from zero and counts for the law."""
    for variant in variants:
        bits = grid.forms()[variant].bits
        for family in grid.families():
            for tokens in grid.budgets(family, variant):
                cells = grid.seeds_of(family, tokens, variant)
                if tokens >= TRAINED_ENOUGH and _is_one_pass(cells[0]):
                    found = damage(cells)
                    if found.z > Z_THRESHOLD:
                        size = cells[0].model.num_parameters
                        yield Point(float(bits or 0), tokens, size, found.mean, family)


def _is_one_pass(cell: Measured) -> bool:
    return int(cell.record["spec"]["cell"]["trunk"].get("passes", 1)) == 1
