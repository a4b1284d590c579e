"""What goes on while a task is worked at: beats, the look at the lease, and the log on its way.

It has a thread of its own, so that a store that does not answer never delays a deadline.
"""

import threading
from collections.abc import Callable

from quantgrid.clock import Clock
from quantgrid.errors import QuantgridError
from quantgrid.inside.signs import Signs


class Heart:
    """Beats until it is stopped.

    Args:
        signs: Of the machine.
        period_s: Between two beats, in seconds of this machine's clock.
        clock: Measures silence.
        progress: The number that a beat tells.
    """

    def __init__(
        self, signs: Signs, period_s: float, clock: Clock, progress: Callable[[], int]
    ) -> None:
        self.is_lost = False
        """Whether the lease has another machine by now, or wants none."""
        self.also: Callable[[], None] = lambda: None
        """What else is done with each beat."""
        self.listen: Callable[[], None] = lambda: None
        """Looks with each beat whether the controller lives."""
        self._signs, self._period_s, self._clock, self._progress = signs, period_s, clock, progress
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def start(self) -> None:
        """Beat from now on; the first beat says that the machine runs."""
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """Beat no more; a call that hangs is not waited for longer than patience lasts."""
        self._stopped.set()
        self._thread.join(patience_s)

    def _go(self) -> None:
        while True:
            for act in (self._beat, self.also, self.listen):
                try:
                    act()
                except QuantgridError:
                    continue  # the store does not answer; the next beat may get through
            if self._stopped.wait(self._period_s):
                return

    def _beat(self) -> None:
        self._signs.beat(self._progress())
        self.is_lost = self.is_lost or not self._signs.is_wanted()
