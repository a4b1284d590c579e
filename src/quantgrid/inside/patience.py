"""Calls to a store that may not answer for a while: repeated, for as long as is said."""

import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from quantgrid.clock import Clock
from quantgrid.errors import PlatformFault
from quantgrid.masking import masked

T = TypeVar("T")
_FIRST_S, _LAST_S = 0.05, 30.0


class Patience:
    """Repeats what did not get through.

    Args:
        clock: Measures it.
        factor: How much faster time goes than on a real platform; pauses shrink with it.
        stopped: When it is set, nothing is repeated any more.
    """

    def __init__(self, clock: Clock, factor: float, stopped: threading.Event) -> None:
        self._clock, self._factor, self._stopped = clock, factor, stopped

    def insist(self, call: Callable[[], T], until_s: float) -> T:
        """The answer of a call, asked for again and again.

        Args:
            call: It may be made twice.
            until_s: Moment of the monotonic clock after which it is given up.

        Raises:
            PlatformFault: the last one, when the time is over.
        """
        pause_s = _FIRST_S
        while True:
            try:
                return call()
            except PlatformFault as fault:
                left_s = until_s - self._clock.monotonic_s()
                if left_s <= 0 or self._stopped.wait(min(pause_s, left_s)):
                    raise
                tell(f"again: {fault}")
            pause_s = min(2 * pause_s, max(_LAST_S / self._factor, _FIRST_S))


def tell(text: str) -> None:
    """Say something in the machine's own log, which everybody with the account may read."""
    print(masked(text, os.environ), file=sys.stderr, flush=True)
