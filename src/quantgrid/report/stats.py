"""Paired estimates: what two sets of cells differ by, sequence by sequence.

Cells of one family share a fixed validation set, so the spread between sequences cancels: the
standard error of a paired difference is 10 to 50 times smaller than that of two means
(quantisation research, section 0.1).  The error says how well the validation set pins the
difference of these trained models; how much other seeds would differ, the seeds themselves show.

Legend of shape suffixes: S sequences of the fixed validation set.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantgrid.report.records import Losses, Measured

Z_THRESHOLD = 3.0
"""A difference counts when it exceeds this many standard errors (research, section 1.3)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean in nats per token with its standard error over sequences.

    `by_seed` holds the mean of every seed, so that a reader sees how far seeds agree.
    """

    mean: float
    se: float
    by_seed: tuple[float, ...]

    @property
    def z(self) -> float:
        """Mean in standard errors; infinite for a difference without any spread."""
        if self.se > 0:
            return self.mean / self.se
        return 0.0 if self.mean == 0 else math.copysign(math.inf, self.mean)

    @property
    def holds(self) -> bool:
        """Whether the mean is above zero beyond doubt."""
        return self.z > Z_THRESHOLD

    @property
    def num_agreeing(self) -> int:
        """Seeds whose own mean has the sign of the whole."""
        return sum(1 for each in self.by_seed if each * self.mean > 0)


def estimate(differences_by_seed: Sequence[Losses]) -> Estimate:
    """Average over seeds for each sequence, then mean and std / sqrt(n) over sequences.

    Args:
        differences_by_seed: One vector over sequences (S) per seed; at least one.
    """
    mean_S = np.mean(differences_by_seed, axis=0)
    se = float(np.std(mean_S, ddof=1) / math.sqrt(len(mean_S)))
    by_seed = tuple(float(np.mean(each_S)) for each_S in differences_by_seed)
    return Estimate(float(np.mean(mean_S)), se, by_seed)


def damage(cells: Sequence[Measured]) -> Estimate:
    """What the cells of one form lose against their own bases."""
    return estimate([cell.delta for cell in cells])


def find_contrast(left: Sequence[Measured], right: Sequence[Measured]) -> Estimate | None:
    """Damage of `left` minus damage of `right`, paired by seed; None without a common seed."""
    by_seed = {cell.seed: cell for cell in right}
    pairs = [(cell, by_seed[cell.seed]) for cell in left if cell.seed in by_seed]
    if not pairs:
        return None
    return estimate([one.delta - other.delta for one, other in pairs])


def mean_loss(cells: Sequence[Measured]) -> float:
    """Validation loss in nats per token, mean over cells."""
    return float(np.mean([cell.losses.mean() for cell in cells]))


def spread(values: Sequence[float]) -> float:
    """Standard deviation over seeds; 0 for a single one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
