"""What doubles measured while somebody listens: scaled time, money, and machines that still cost.

A double adds its meter when it starts and takes it away when it ends.  Nothing is kept while nobody
listens, so that ten thousand worlds of a test leave nothing behind.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple


class Reading(NamedTuple):
    """What one double, or several, measured.

    Args:
        scaled_s: Seconds of the platform's own time, which runs faster than a watch.
        usd: The platform's bill.
        billing: Machines that cost something now.
    """

    scaled_s: float = 0.0
    usd: float = 0.0
    billing: int = 0


Meter = Callable[[], Reading]

_listened: list["Listener"] = []


class Listener:
    """Everything that doubles measure from now on until `read`."""

    def __init__(self) -> None:
        self._begun: dict[object, Reading] = {}
        self._meters: dict[object, Meter] = {}
        self._over: list[Reading] = []

    def add(self, double: object, meter: Meter) -> None:
        """A double started, or goes on after a crash."""
        self._begun.setdefault(double, Reading())
        self._meters[double] = meter

    def remove(self, double: object) -> None:
        """A double ends: what it measured stays."""
        meter = self._meters.pop(double, None)
        if meter is not None:
            self._over.append(_since(self._begun.pop(double), _read(meter)))

    def begin(self) -> None:
        """From here on: doubles that live on count from what they have measured so far."""
        self._over.clear()
        self._begun = {double: _read(meter) for double, meter in self._meters.items()}

    def read(self) -> Reading | None:
        """What was measured since the beginning; None when no double took part."""
        live = [_since(self._begun[each], _read(meter)) for each, meter in self._meters.items()]
        found = [each for each in [*self._over, *live] if each.scaled_s > 0]
        if not found:
            return None
        return Reading(
            max(each.scaled_s for each in found),
            sum(each.usd for each in found),
            sum(each.billing for each in found),
        )

    def forget_immortal(self) -> None:
        """Doubles in memory, which nobody ends, are over with their test."""
        for double in [each for each in self._meters if not hasattr(each, "close")]:
            self.remove(double)


def listen() -> Listener:
    """Begin to listen; one listener a process."""
    _listened[:] = [Listener()]
    return _listened[0]


def add(double: object, meter: Meter) -> None:
    """A double started: its meter is read while somebody listens."""
    for listener in _listened:
        listener.add(double, meter)


def remove(double: object) -> None:
    """A double is about to end: its meter is read for the last time."""
    for listener in _listened:
        listener.remove(double)


def _read(meter: Meter) -> Reading:
    """Nothing of a double that crashed, and answers no more."""
    with suppress(OSError):
        return meter()
    return Reading()


def _since(begin: Reading, end: Reading) -> Reading:
    usd, scaled_s = end.usd - begin.usd, end.scaled_s - begin.scaled_s
    return Reading(max(scaled_s, 0.0), max(usd, 0.0), end.billing)
