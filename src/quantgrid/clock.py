"""Time as a thing that is passed in, so that a test can hold it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> datetime:
        """The time of day, in UTC."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with whole seconds, as records carry it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
