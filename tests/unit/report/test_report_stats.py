"""Paired estimates are what the textbook says."""

import math

import numpy as np
import pytest

from quantgrid.report.records import Grid
from quantgrid.report.stats import Estimate, damage, estimate, find_contrast, spread

FAMILY = "n0 shakespeare"


def test_estimate_is_mean_and_error_when_one_seed() -> None:
    """Mean, and sample standard deviation over the root of the number of sequences."""
    value = estimate([np.array([1.0, 2.0, 3.0, 6.0])])

    assert value.mean == 3.0
    assert value.se == pytest.approx(math.sqrt(14 / 3) / 2)
    assert value.z == pytest.approx(3.0 / value.se)


def test_estimate_averages_seeds_first_when_several() -> None:
    """Seeds are averaged for each sequence before the spread over sequences is taken."""
    value = estimate([np.array([0.0, 4.0]), np.array([4.0, 0.0])])

    assert value == Estimate(2.0, 0.0, (2.0, 2.0))


@pytest.mark.parametrize(("mean", "z"), [(0.0, 0.0), (1.0, math.inf), (-1.0, -math.inf)])
def test_z_is_defined_when_nothing_spreads(mean: float, z: float) -> None:
    """No spread: zero stays zero, anything else is infinitely far from it."""
    assert estimate([np.full(5, mean)]).z == z


@pytest.mark.parametrize(("mean", "holds"), [(3.0, False), (3.001, True), (-9.0, False)])
def test_estimate_holds_when_above_three_errors(mean: float, holds: bool) -> None:
    """The threshold itself is not enough, and the sign counts."""
    assert Estimate(mean, 1.0, (mean,)).holds is holds


def test_agreement_counts_seeds_when_they_differ() -> None:
    """A seed agrees when its own mean has the sign of the whole."""
    assert Estimate(1.0, 0.1, (2.0, 1.5, -0.5)).num_agreeing == 2
    assert Estimate(-1.0, 0.1, (-2.0, 1.0)).num_agreeing == 1


def test_damage_is_paired_when_sequences_differ(demo: Grid) -> None:
    """The error is that of differences: far below that of two unpaired means."""
    cells = demo.seeds_of(FAMILY, 400_000, "gptq-w3g32-noclip")
    unpaired = np.std(cells[0].losses, ddof=1) / math.sqrt(len(cells[0].losses))

    value = damage(cells)

    assert len(value.by_seed) == 3
    assert value.se < unpaired / 20


def test_contrast_pairs_seeds_when_one_is_missing(demo: Grid) -> None:
    """Only seeds on both sides count, whatever their order."""
    left = demo.seeds_of(FAMILY, 400_000, "rtn-w3g32-noclip")
    right = demo.seeds_of(FAMILY, 400_000, "gptq-w3g32-noclip")

    value = find_contrast(left, (right[2], right[0]))

    assert value == estimate([left[0].losses - right[0].losses, left[2].losses - right[2].losses])
    assert find_contrast(left[:1], right[1:]) is None


def test_spread_is_over_seeds_when_several() -> None:
    """Sample standard deviation; a single seed has none."""
    assert spread([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert spread([5.0]) == 0.0
