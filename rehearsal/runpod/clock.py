"""The double's own time: as many times faster as a test wants, and it can be set ahead."""

import time
from datetime import UTC, datetime
from typing import Any


class Clock:
    """Seconds since 1970, of which `factor` pass in one; goes on while the double is dead.

    Args:
        kept: Where its few numbers are kept, in the state of the double.
        factor: How much faster than a watch.
    """

    def __init__(self, kept: dict[str, Any], factor: float) -> None:
        if not kept:
            now_s = time.time()
            kept.update(origin_s=now_s, real_s=now_s, factor=factor)
        self._kept = kept

    @property
    def factor(self) -> float:
        """How many of its seconds pass in one of a watch."""
        return float(self._kept["factor"])

    def now_s(self) -> float:
        """The time."""
        passed_s = time.time() - self._kept["real_s"]
        return float(self._kept["origin_s"] + passed_s * self.factor)

    def advance(self, seconds: float) -> None:
        """Set it ahead."""
        self._kept["origin_s"] += seconds


def moment(seconds: float) -> str:
    """A time as the platform writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def seconds(text: str) -> float:
    """A time that the platform or a caller wrote."""
    return datetime.fromisoformat(text).timestamp()
