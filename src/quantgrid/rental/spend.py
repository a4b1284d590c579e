"""The money: what machines did cost, what they may still cost, and whether one more is allowed.

Whole micro-dollars, rounded up; whole seconds, rounded apart.  A promise is written down before the
create and counts in full until the cost of its machine is known, whoever lives or dies meanwhile.
"""

from collections.abc import Iterable, Iterator
from math import ceil, floor
from typing import NamedTuple

from quantgrid.rental.lease import Funds

DAY_S = 86_400
_HOUR_S = 3600
MICROUSD = 1_000_000


class Promise(NamedTuple):
    """What a machine may cost at most.

    Args:
        nonce: Of the machine.
        subject: What it is for.
        grid: Whose money it is.
        begin_s: When it may begin to cost.
        deadline_s: When it has ended itself, the grace of its platform included.
        microusd_per_h: Its price.
    """

    nonce: str
    subject: str
    grid: str
    begin_s: int
    deadline_s: int
    microusd_per_h: int


class Cost(NamedTuple):
    """What a machine did cost."""

    nonce: str
    begin_s: int
    end_s: int
    microusd_per_h: int


class Bill(NamedTuple):
    """What a machine did cost by the platform's own word, which counts from when it is known.

    Args:
        nonce: Of the machine.
        microusd: The amount.
        begin_s: First whole second that is billed.
        end_s: The last one.
    """

    nonce: str
    microusd: int
    begin_s: int
    end_s: int


class Caps(NamedTuple):
    """Bounds in micro-dollars; None where nothing bounds.

    Args:
        subject: For one subject: a cell.
        grid: For a grid.
        day: For a day in UTC, over all grids of the register.
        per_hour: What all machines together may cost in an hour.
    """

    subject: int | None = None
    grid: int | None = None
    day: int | None = None
    per_hour: int | None = None


class Allowance(NamedTuple):
    """Whether one more machine is allowed, and for a person why not."""

    funds: Funds
    why: str = ""


def microusd(per_h: int, begin_s: int, end_s: int) -> int:
    """The cost of some seconds, rounded up; nothing when they are none."""
    return -(-per_h * max(end_s - begin_s, 0) // _HOUR_S)


def whole(begin_s: float, end_s: float) -> tuple[int, int]:
    """Whole seconds that contain a span."""
    return floor(begin_s), ceil(end_s)


class _Span(NamedTuple):
    """A time that costs, with what it is for; `billed` is what it cost by the platform's word."""

    subject: str
    grid: str
    begin_s: int
    end_s: int
    per_h: int
    billed: int | None = None

    def within(self, begin_s: int, end_s: int) -> int:
        """What it costs between two moments."""
        first_s, last_s = max(self.begin_s, begin_s), min(self.end_s, end_s)
        if self.billed is None:
            return microusd(self.per_h, first_s, last_s)
        span_s, part_s = max(self.end_s - self.begin_s, 1), max(last_s - first_s, 0)
        if self.begin_s == self.end_s:  # an amount without a duration falls on its moment
            part_s = begin_s <= self.begin_s < end_s
        return -(-self.billed * part_s // span_s)

    @property
    def cost(self) -> int:
        """What it costs in all."""
        if self.billed is not None:
            return self.billed
        return microusd(self.per_h, self.begin_s, self.end_s)


class Books(NamedTuple):
    """All promises, all costs and all bills of a register.

    A cost whose promise is missing still counts for the day, and for no grid.  A cost is our own
    measure, and counts until the platform's bill of the machine is there.
    """

    promises: tuple[Promise, ...]
    costs: tuple[Cost, ...]
    bills: tuple[Bill, ...] = ()

    def open(self) -> tuple[Promise, ...]:
        """Promises whose machines may be there."""
        closed = {cost.nonce for cost in self.costs}
        return tuple(each for each in self.promises if each.nonce not in closed)

    def spent(self) -> Iterator[_Span]:
        """What was spent."""
        promised = {each.nonce: each for each in self.promises}
        billed = {each.nonce: each for each in self.bills}
        for cost in self.costs:
            promise, bill = promised.get(cost.nonce), billed.get(cost.nonce)
            subject, grid = (promise.subject, promise.grid) if promise else ("", "")
            begin_s, end_s = (bill or cost).begin_s, (bill or cost).end_s
            amount = bill.microusd if bill else None
            yield _Span(subject, grid, begin_s, end_s, cost.microusd_per_h, amount)

    def unbilled(self) -> tuple[Cost, ...]:
        """Costs that are our own measure so far; one of no time needs no bill."""
        billed = {each.nonce for each in self.bills}
        return tuple(c for c in self.costs if c.end_s > c.begin_s and c.nonce not in billed)

    def owed(self, now_s: float) -> Iterator[_Span]:
        """What open promises may cost; a machine that overstays costs until now at least."""
        return (_worst(each, now_s) for each in self.open())

    def per_hour(self) -> int:
        """What the machines that may be there cost in an hour."""
        return sum(each.microusd_per_h for each in self.open())


def _worst(promise: Promise, now_s: float) -> _Span:
    end_s = max(promise.deadline_s, ceil(now_s))
    return _Span(promise.subject, promise.grid, promise.begin_s, end_s, promise.microusd_per_h)


def allow(books: Books, wanted: Promise, caps: Caps, now_s: float) -> Allowance:
    """Whether a machine may be created whose promise is written down already.

    Refused is what would be too much even if no other machine cost another cent; what would only be
    too much together with the others has to wait until their cost is known.
    """
    others = books._replace(promises=tuple(p for p in books.promises if p.nonce != wanted.nonce))
    want, spent = _worst(wanted, now_s), list(books.spent())
    for name, cap, part in _bounds(caps, want):
        sure = _sum(spent, part) + _sum([want], part)
        if sure > cap:
            return Allowance(Funds.REFUSED, _why(name, cap, sure))
        worst = sure + _sum(others.owed(now_s), part)
        if worst > cap:
            return Allowance(Funds.WAIT, _why(name, cap, worst))
    return _burn(others.per_hour(), wanted.microusd_per_h, caps.per_hour)


def _burn(running: int, wanted: int, cap: int | None) -> Allowance:
    if cap is None or running + wanted <= cap:
        return Allowance(Funds.CLEAR)
    funds = Funds.REFUSED if wanted > cap else Funds.WAIT
    return Allowance(funds, _why("an hour", cap, running + wanted))


_Part = tuple[str, str, int, int]
"""Subject, grid (any when empty), and the time that is looked at."""
_EVER = 1 << 62


def _bounds(caps: Caps, want: _Span) -> Iterator[tuple[str, int, _Part]]:
    if caps.subject is not None:
        yield "this cell", caps.subject, (want.subject, "", 0, _EVER)
    if caps.grid is not None:
        yield f"grid {want.grid}", caps.grid, ("", want.grid, 0, _EVER)
    if caps.day is not None:
        for day in range(want.begin_s // DAY_S, (want.end_s - 1) // DAY_S + 1):
            yield "a day", caps.day, ("", "", day * DAY_S, (day + 1) * DAY_S)


def _sum(spans: Iterable[_Span], part: _Part) -> int:
    subject, grid, begin_s, end_s = part
    return sum(
        span.within(begin_s, end_s)
        for span in spans
        if subject in {"", span.subject} and grid in {"", span.grid}
    )


def _why(name: str, cap: int, worst: int) -> str:
    return f"{name} may cost {dollars(cap)}, and would cost up to {dollars(worst)}"


def dollars(amount: int) -> str:
    """Micro-dollars for a person."""
    return f"${amount / MICROUSD:,.2f}"
