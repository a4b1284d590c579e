"""What the end of one machine means for the chain of machines that work on one subject."""

from typing import Any

from quantgrid.rental.lease import End, Lease, Terms

_IDLE_LINKS = 2
"""Links in a row without a newer checkpoint that end a chain."""
_SLOW_BOOTS = 2
"""Machines in a row without a sign of life that end it."""

_AT_ONCE = {End.REFUSED, End.ACCOUNT, End.BUDGET, End.CANCELLED}
"""The next machine would end in the same way."""
_LINKS = {End.CAP, End.STALLED}
"""What had the time to make a newer checkpoint."""
_OTHER_CANDIDATE = {End.SLOW_BOOT, End.FATAL, End.NO_CAPACITY}

_COUNTERS = {
    End.CAP: "links",
    End.STALLED: "interruptions",
    End.INTERRUPTED: "interruptions",
    End.LEASE_LOST: "interruptions",
    End.NEVER_MADE: "interruptions",
    End.SLOW_BOOT: "slow_boots",
    End.FATAL: "fatals",
    End.NO_CAPACITY: "waits",
    End.BURN_RATE: "waits",
    End.LATE: "waits",
}


def counted(lease: Lease, end: End, checkpoint: int, now_s: float, terms: Terms) -> Lease:
    """The lease with an end counted; links, interruptions and failures are counted apart.

    Args:
        lease: As it was when the machine was gone.
        end: Why it ended, or why there was none.
        checkpoint: Tokens of the newest checkpoint that it told of.
        now_s: The time.
        terms: How patient its controller is.
    """
    counter = _COUNTERS.get(end, "failures")
    idle_links = 0 if checkpoint > lease.checkpoint else lease.idle_links + (end in _LINKS)
    changes: dict[str, Any] = {
        counter: getattr(lease, counter) + 1,
        "checkpoint": max(lease.checkpoint, checkpoint),
        "idle_links": idle_links,
        "turn": lease.turn + (end in _OTHER_CANDIDATE),
        "next_s": 0.0,
    }
    if end is End.NO_CAPACITY:
        changes["short_s"] = lease.short_s or now_s
    is_round = changes["turn"] % len(terms.candidates) == 0  # each was asked for once more
    if end is End.BURN_RATE or (end is End.NO_CAPACITY and is_round):
        changes["next_s"] = now_s + terms.wait_s
    return lease._replace(**changes)


def final(lease: Lease, end: End, now_s: float, terms: Terms) -> End | None:
    """Why no further machine is rented after this end; None while one may be."""
    bounds = [
        (end, end in _AT_ONCE),
        (End.NO_PROGRESS, lease.idle_links >= _IDLE_LINKS),
        (End.CAP, lease.links >= terms.max_links),
        (End.INTERRUPTED, lease.interruptions > terms.max_interruptions),
        (end, lease.failures > terms.max_failures),
        (End.SLOW_BOOT, lease.slow_boots >= _SLOW_BOOTS),
        (End.FATAL, lease.fatals >= len(terms.candidates)),
        (End.NO_CAPACITY, lease.short_s > 0 and now_s - lease.short_s > terms.capacity_s),
    ]
    return next((each for each, is_reached in bounds if is_reached), None)
