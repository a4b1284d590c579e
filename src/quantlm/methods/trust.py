"""The trust estimator of QuEST: gradients pass where the rounded weight can be trusted.

Panferov et al. 2502.05003.  Levels follow the root mean square of a row, clipped where normal
weights lose least; a weight further than half a step from its level lies beyond the clip, and its
gradient is dropped.  Rows are not rotated: that is the paper's weight-and-activation recipe, and
its own ablation (QU 1.1, "without Hadamard") is what compares here.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from quantlm.methods.qat import extend, quantise, through
from quantlm.quantiser import Levels, spread
from quantlm.quantiser import quantise as to_nearest
from quantlm.speed import Forward

__all__ = ["extend", "forward", "quantise", "trusted"]

ROOM = 1.001
"""Of half a step: a weight on the very edge between two levels is trusted in spite of rounding."""


def forward(form: Mapping[str, Any]) -> Forward:
    """How logits are made during training."""
    levels = Levels.of(form)
    return through(lambda matrix: trusted(matrix.weight, levels))


def trusted(weight_OI: Tensor, levels: Levels) -> Tensor:
    """The rounded weights; the gradient is that of the weights, and zero beyond the clip.

    The sum adds an exact zero: training sees the very values that `quantise` exports.
    """
    latent = weight_OI.detach()
    layer = to_nearest(latent, levels)
    values = layer.values()
    scale_OI, _ = spread(levels, latent.shape, layer.scales, layer.zeros)
    passes = ((values - latent).abs() <= scale_OI * (ROOM / 2)).to(latent.dtype)
    return values + (weight_OI - latent) * passes
