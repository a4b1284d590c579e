"""When a machine has to be where: moments of its monotonic clock, whatever its wall clock says."""

from typing import NamedTuple

from quantgrid.clock import Clock
from quantgrid.rental.briefing import Briefing

_RESERVE_S = 60.0
_LEAST_S = 1.5
"""Seconds of this machine's clock that the last uploads take at least, however fast time goes."""
_SHARE = 0.1


class Times(NamedTuple):
    """Moments of the monotonic clock.

    Args:
        begin_s: When it was asked for.
        deadline_s: When the machine has ended, with all that it says about it.
        reserve_s: Seconds before it that belong to the machine itself.
        grace_s: Seconds from SIGTERM to SIGKILL.
    """

    begin_s: float
    deadline_s: float
    reserve_s: float
    grace_s: float

    @classmethod
    def of(cls, told: Briefing, store_s: float, clock: Clock) -> "Times":
        """The moments of a machine.

        Args:
            told: The deadline by the store's clock.
            store_s: What that clock says now.
            clock: That of this machine.
        """
        now_s, left_s = clock.monotonic_s(), max(told.deadline - store_s, 0.0)
        reserve_s = min(max(told.real(_RESERVE_S), _LEAST_S), _SHARE * left_s)
        return cls(now_s, now_s + left_s, reserve_s, told.real(told.grace_s))

    @property
    def ends_s(self) -> float:
        """When no task may run any more."""
        return self.deadline_s - self.reserve_s

    @property
    def last_s(self) -> float:
        """When the machine ends, whatever it does."""
        return self.deadline_s + self.grace_s

    def wall_s(self, clock: Clock) -> float:
        """`ends_s` by the wall clock of this machine, right or wrong."""
        return clock.now().timestamp() + self.ends_s - clock.monotonic_s()

    def has_half(self, now_s: float) -> bool:
        """Whether more than half of the time is left: worth one more start of the same task."""
        return self.ends_s - now_s > 0.5 * (self.ends_s - self.begin_s)
