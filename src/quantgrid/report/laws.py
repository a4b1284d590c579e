"""Published laws of quantisation as data, and what a grid says about each.

Which laws a model of a million parameters can show, and at how many tokens, was measured: the
quantisation research, section 1.3 (only laws marked "yes" are listed).  A law is evaluated in
every grid that holds its forms.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quantgrid.report.records import Grid
from quantgrid.report.stats import Estimate, find_contrast
from quantgrid.report.table import Lines

TRAINED_ENOUGH = 400_000
"""Tokens below which a byte model is too undertrained to be damaged (research, section 1.3)."""

GPTQ = "Frantar et al. 2022, arXiv\N{NO-BREAK SPACE}2210.17323"
PRECISION = "Kumar et al. 2024, arXiv\N{NO-BREAK SPACE}2411.04330"
UNDERTRAINED = f"{PRECISION}; Ouyang et al. 2024, arXiv\N{NO-BREAK SPACE}2411.17691"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one family of a grid says about a law at one budget.

    `difference` is in nats per token and positive when the law is right.
    """

    law: str
    family: str
    num_tokens: int
    left: str
    right: str
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Law:
    """At every budget, `left` loses more than `right` on the same base.  Both are variant ids.

    `source` names who published it; empty when only the research measured it.
    """

    name: str
    left: str
    right: str
    source: str = ""
    min_tokens: int = TRAINED_ENOUGH

    def outcomes(self, grid: Grid) -> Iterator[Outcome]:
        """One outcome for every family and budget that holds both forms."""
        for family in grid.families():
            for num_tokens in _trained(grid.budgets(family, self.left), self.min_tokens):
                difference = find_contrast(
                    grid.seeds_of(family, num_tokens, self.left),
                    grid.seeds_of(family, num_tokens, self.right),
                )
                if difference is not None:
                    yield Outcome(self.name, family, num_tokens, self.left, self.right, difference)


@dataclass(frozen=True, slots=True)
class Growth:
    """The damage of `variant` is larger at the largest budget than at the smallest one.

    Only the end points are compared: neighbouring budgets are too close (research, section 1.3).
    """

    name: str
    variant: str
    source: str = UNDERTRAINED
    min_tokens: int = TRAINED_ENOUGH

    def outcomes(self, grid: Grid) -> Iterator[Outcome]:
        """One outcome for every family with at least two budgets."""
        for family in grid.families():
            budgets = _trained(grid.budgets(family, self.variant), self.min_tokens)
            if len(budgets) > 1:
                yield from self._between(grid, family, budgets[0], budgets[-1])

    def _between(self, grid: Grid, family: str, first: int, last: int) -> Iterator[Outcome]:
        difference = find_contrast(
            grid.seeds_of(family, last, self.variant), grid.seeds_of(family, first, self.variant)
        )
        if difference is not None:
            yield Outcome(
                self.name,
                family,
                last,
                f"{self.variant} at {last}",
                f"{self.variant} at {first}",
                difference,
            )


LAWS: tuple[Law | Growth, ...] = (
    Law("GPTQ loses less than RTN: W4 row", "rtn-w4row-noclip", "gptq-w4row-noclip", GPTQ),
    Law("GPTQ loses less than RTN: W3 row", "rtn-w3row-noclip", "gptq-w3row-noclip", GPTQ),
    Law("GPTQ loses less than RTN: W3 g32", "rtn-w3g32-noclip", "gptq-w3g32-noclip", GPTQ),
    Law("GPTQ loses less than RTN: W2 g32 asym", "rtn-w2g32-asym", "gptq-w2g32-asym", GPTQ),
    Law("fewer bits lose more: RTN 2 and 3", "rtn-w2g32-asym", "rtn-w3g32-noclip", PRECISION),
    Law("fewer bits lose more: RTN 3 and 4", "rtn-w3g32-noclip", "rtn-w4row-noclip", PRECISION),
    Law("finer scales lose less: W4 tensor and row", "rtn-w4tensor-noclip", "rtn-w4row-noclip"),
    Law("finer scales lose less: W3 tensor and row", "rtn-w3tensor-noclip", "rtn-w3row-noclip"),
    Law("finer scales lose less: W3 row and g32", "rtn-w3row-noclip", "rtn-w3g32-noclip"),
    Law("a zero point loses less: W3 g32", "rtn-w3g32-noclip", "rtn-w3g32-asym"),
    Law("clipped ranges lose less: W2 row", "rtn-w2row-noclip", "clip-w2row-noclip"),
    Law(
        "finer scales lose less: MXFP4 and NVFP4",
        "mxfp-w4g32-floor-e8m0",
        "nvfp-w4g16-absmax-e4m3",
    ),
    Law("integers lose less: MXFP4 and W4 g32", "mxfp-w4g32-floor-e8m0", "rtn-w4g32-noclip"),
    Law(
        "rotation loses less: W4A4",
        "activation-w4row-noclip-a4",
        "hadamard-w4row-noclip-a4",
        "Ashkboos et al. 2024, arXiv\N{NO-BREAK SPACE}2404.00456",
    ),
    Law("fewer bits lose more: cache 2 and 4", "cache-kv2", "cache-kv4"),
    Growth("damage grows with tokens: RTN W3 row", "rtn-w3row-noclip"),
    Growth("damage grows with tokens: RTN W3 g32", "rtn-w3g32-noclip"),
    Growth("damage grows with tokens: GPTQ W3 g32", "gptq-w3g32-noclip"),
    Growth("damage grows with tokens: RTN W2 g32 asym", "rtn-w2g32-asym"),
)


def source_of(name: str) -> str:
    """Who published a law; empty when nobody is named."""
    return next((law.source for law in LAWS if law.name == name), "")


def outcomes(grid: Grid, laws: Iterable[Law | Growth] = LAWS) -> list[Outcome]:
    """What a grid says about all laws whose forms it holds."""
    return [outcome for law in laws for outcome in law.outcomes(grid)]


def lines(found: Iterable[Outcome]) -> Lines:
    """The outcomes as a table."""
    columns = ["law", "family", "tokens", "left", "right", "difference", "se", "z", "seeds"]
    return Lines([*columns, "agreeing", "holds"], [_row(outcome) for outcome in found])


def _row(outcome: Outcome) -> list[str]:
    difference = outcome.difference
    return [
        outcome.law,
        outcome.family,
        str(outcome.num_tokens),
        outcome.left,
        outcome.right,
        f"{difference.mean:.6f}",
        f"{difference.se:.6f}",
        f"{difference.z:.2f}",
        str(len(difference.by_seed)),
        str(difference.num_agreeing),
        "yes" if difference.holds else "no",
    ]


def _trained(budgets: list[int], min_tokens: int) -> list[int]:
    return [num_tokens for num_tokens in budgets if num_tokens >= min_tokens]
