"""Ends a process whose training stands still: a lost device answers no exception.

It counts its own ticks and no clock: a process that was stopped, or a laptop that slept, has none.
"""

import faulthandler
import os
import sys
import threading
from collections.abc import Callable

from quantgrid.errors import Alarm

STALL_S = 900.0
"""Silence that no step of ours makes; the first step may compile for minutes."""
_TICKS = 30


class Heart:
    """A thread that expects beats.

    Delay: `stall_s` to `stall_s` + 1/30 of it; false alarms: a step that takes that long.

    Args:
        stall_s: Longest time between two beats.
        cell: Whom the alarm names.
        end: Called with the alarm when beats stop; ends the process by default, for no exception
            reaches a thread that waits for a device.
    """

    def __init__(
        self, stall_s: float, cell: str, end: Callable[[Alarm], None] | None = None
    ) -> None:
        self._stall_s, self._cell, self._end = stall_s, cell, end or _end_process
        self._beaten, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, name="heart", daemon=True)

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def beat(self) -> None:
        """Something was done."""
        self._beaten.set()

    def _listen(self) -> None:
        silent = 0
        while not self._over.wait(self._stall_s / _TICKS):
            silent = 0 if self._beaten.is_set() else silent + 1
            self._beaten.clear()
            if silent > _TICKS:
                self._end(self._alarm())
                return

    def _alarm(self) -> Alarm:
        return Alarm(
            f"the watch ends {self._cell} by its rule stall",
            expected=f"a step within {self._stall_s:g} s",
            seen="none",
            do="The newest checkpoint is kept: look at the device, then run the same cell again.",
        )


def _end_process(alarm: Alarm) -> None:
    print(alarm, file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(alarm.exit_code)
