"""Learning rates of WSD: warm-up, stable, decay (recipe of epfml/schedules-and-scaling).

A rate is a function of the step alone (0 is the first), so that any process can take over.
"""

from collections.abc import Callable

Rate = Callable[[int], float]


def trunk_rate(peak: float, warmup_steps: int) -> Rate:
    """Linear to `peak` over the first `warmup_steps` steps, constant from there."""

    def rate(step: int) -> float:
        return peak * min(1.0, (step + 1) / warmup_steps) if warmup_steps else peak

    return rate


def cooldown_rate(trunk: Rate, *, num_steps: int, cooldown_steps: int) -> Rate:
    """The trunk's rate times a line that would reach zero at step `num_steps`.

    The first step of the cool-down has the full rate and the last one 1 / `cooldown_steps` of it:
    every step moves the weights.
    """

    def rate(step: int) -> float:
        return trunk(step) * min(1.0, (num_steps - step) / cooldown_steps)

    return rate
