"""When to keep the state: pure decisions over times that are passed in."""

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

OVERHEAD_CAP = 0.01
"""The largest share of its time that a stage may spend on keeping its state."""

_REMEMBERED = 5
_FIRST_STEPS = 3
_LEAST_COST_S = 1e-3
_PRESUMED_BYTES_PER_S = 1e9
"""sha256 takes most of a save and does 0.8 to 1.2 GB/s on one core (PE 6)."""


def interval_s(cost_s: float, interruption_s: float, *, cap: float = OVERHEAD_CAP) -> float:
    """Seconds of work between two saves that waste the least time, within the cap on overhead.

    The optimum is that of J. T. Daly, A higher order estimate of the optimum checkpoint interval
    for restart dumps, FGCS 22 (2006) 303-312, equation 37, which refines J. W. Young's
    sqrt(2 cost M) (CACM 17 (1974) 530-531); M is the mean time between interruptions.

    Args:
        cost_s: Time that work loses to one save.
        interruption_s: Mean time between two interruptions.
        cap: Largest share of the time that saves may take; it stretches the interval.
    """
    cost_s = max(cost_s, _LEAST_COST_S)
    return max(_daly_s(cost_s, interruption_s), cost_s * (1 / cap - 1))


def _daly_s(cost_s: float, interruption_s: float) -> float:
    if cost_s >= 2 * interruption_s:
        return interruption_s
    ratio = cost_s / (2 * interruption_s)
    young_s = math.sqrt(2 * cost_s * interruption_s)
    return young_s * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s


class Cadence:
    """Says when the state is to be kept, from what saves and steps were seen to cost.

    The first save tells what a save costs, so it is early: when its presumed cost is 1 % of the
    time that passed, and after a few steps.  Medians of the last few are used, because a process
    that was stopped for an hour has one step of an hour.

    Args:
        size_bytes: Size of a state.
        interruption_s: Mean time between two interruptions on this platform.
        start_s: Now, on the clock that every later time is of.
        cap: Largest share of the time that saves may take.
    """

    def __init__(
        self,
        *,
        size_bytes: int,
        interruption_s: float,
        start_s: float,
        cap: float = OVERHEAD_CAP,
    ) -> None:
        self._interruption_s, self._cap = interruption_s, cap
        self._presumed_s = max(size_bytes / _PRESUMED_BYTES_PER_S, _LEAST_COST_S)
        self._steps_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._costs_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._saves_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._num_steps = 0
        self._last_s = self._step_s = start_s

    @property
    def cost_s(self) -> float:
        """What work loses to one save, as seen or presumed."""
        return _median(self._costs_s, self._presumed_s)

    @property
    def interval_s(self) -> float:
        """Seconds between the end of a save and the next one."""
        if not self._costs_s:
            return self._presumed_s / self._cap
        return interval_s(self.cost_s, self._interruption_s, cap=self._cap)

    def step(self, now_s: float) -> None:
        """A step ended."""
        self._steps_s.append(now_s - self._step_s)
        self._step_s = now_s
        self._num_steps += 1

    def saved(self, *, cost_s: float, save_s: float) -> None:
        """A save ended, well or not.

        Args:
            cost_s: Time that work lost to it.
            save_s: Time from the snapshot to the published file.
        """
        self._costs_s.append(cost_s)
        self._saves_s.append(save_s)

    def resumed(self, now_s: float) -> None:
        """Work goes on: the time between is neither a step's nor the interval's."""
        self._last_s = self._step_s = now_s

    def is_due(self, now_s: float) -> bool:
        """Whether the state is to be kept now, after a step."""
        return self._num_steps >= _FIRST_STEPS and now_s - self._last_s >= self.interval_s

    def margin_s(self, grace_s: float) -> float:
        """How long before a deadline the last save has to begin.

        Two saves of the usual length (one may be under way), the step that is not to be cut, and
        a twentieth of the grace.
        """
        save_s = _median(self._saves_s, 2 * self._presumed_s)
        return 2 * save_s + _median(self._steps_s, 0.0) + grace_s / 20


def _median(values: Iterable[float], otherwise: float) -> float:
    known = list(values)
    return median(known) if known else otherwise
