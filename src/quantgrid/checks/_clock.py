"""The clock of this machine, by itself and against that of the archive's store."""

import time
from datetime import UTC, datetime

from quantgrid.checks import Finding, Level
from quantgrid.store import Store

_FIRST_COMMIT_S = 1_764_547_200  # 2025-12-01: a clock before it was never set
_REFUSED_S = 900.0
"""S3 refuses requests that are dated so far off (RequestTimeTooSkewed in Amazon's error list)."""
_TOLD_S = 0.1
"""Half of it is the least that the first digit after the point can tell."""
_NOTICED_S = 30.0
"""Half of what a controller on another host, or a producer, may be silent (60 s)."""


def check() -> Finding:
    """Whether the clock was ever set."""
    now = time.time()
    said = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    if now < _FIRST_COMMIT_S:
        return Finding(Level.REFUSE, "clock", said, "Set the clock; holds and records carry it.")
    return Finding(Level.OK, "clock", said)


def compare(store: Store) -> Finding:
    """How far the clock is from the store's; the question takes time, which is told as well.

    Raises:
        PlatformFault: when the store does not answer.
    """
    before = datetime.now(UTC)
    there = store.now()
    took_s = (datetime.now(UTC) - before).total_seconds()
    skew_s = (there - before).total_seconds() - took_s / 2
    said = f"{skew_s:+.1f} s from that of {store.address}"
    said += f" (within {took_s / 2:.1f} s)" if took_s >= _TOLD_S else ""
    if abs(skew_s) < _NOTICED_S + took_s / 2:
        return Finding(Level.OK, "skew", said)
    level = Level.REFUSE if abs(skew_s) >= _REFUSED_S else Level.WARN
    do = "Set this clock (`timedatectl set-ntp true`): buckets refuse requests from 900 s on, and "
    return Finding(level, "skew", said, f"{do}signs of life from other hosts are misread.")
