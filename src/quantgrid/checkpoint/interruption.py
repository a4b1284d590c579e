"""Whether this process has to leave: a signal came, or its own clock says so."""

import os
import signal
import threading
from types import FrameType
from typing import Any

from quantgrid.clock import Clock

_ONE_REQUEST_S = 1.0
"""Signals closer than this are one request: a runner and a terminal may both pass it on."""


class Interruption:
    """While the block lasts, SIGTERM and SIGINT ask to leave; a second request ends the process.

    Args:
        clock: Its monotonic time decides.
        deadline_s: Monotonic time at which the platform asks; None if it never does.
    """

    def __init__(self, clock: Clock, deadline_s: float | None) -> None:
        self._clock, self._deadline_s = clock, deadline_s
        self._signal: signal.Signals | None = None
        self._asked_s = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, old in self._before.items():
            signal.signal(number, old)
        self._before.clear()

    def find_reason(self, margin_s: float = 0.0) -> str | None:
        """Why this process has to leave within `margin_s`; None while it may stay."""
        if self._signal is not None:
            return f"{self._signal.name} came"
        if self._deadline_s is None:
            return None
        left_s = self._deadline_s - self._clock.monotonic_s()
        if left_s > margin_s:
            return None
        return f"its time ends in {max(left_s, 0):.1f} s"

    def _ask(self, number: int, _: FrameType | None) -> None:
        now_s = self._clock.monotonic_s()
        if self._signal is None:
            self._signal, self._asked_s = signal.Signals(number), now_s
        elif now_s - self._asked_s >= _ONE_REQUEST_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
