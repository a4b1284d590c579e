"""Money is promised before it is spent, in whole micro-dollars, and no bound is ever passed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgrid.rental.lease import Funds
from quantgrid.rental.spend import (
    DAY_S,
    Bill,
    Books,
    Caps,
    Cost,
    Promise,
    allow,
    microusd,
    whole,
)

DAY = 20_000 * DAY_S
HOUR = 3600


def promise(nonce: str = "want", **changes: Any) -> Promise:
    """Two hours at one dollar, unless said otherwise."""
    base = Promise(nonce, "cell-a", "paper", DAY, DAY + 2 * HOUR, 1_000_000)
    return base._replace(**changes)


def funds(caps: Caps, *promises: Promise, costs: tuple[Cost, ...] = (), now_s: int = DAY) -> Funds:
    """What is said of one more machine beside others."""
    wanted = promise()
    return allow(Books((wanted, *promises), costs), wanted, caps, now_s).funds


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (Caps(), Funds.CLEAR),
        (Caps(grid=2_000_000), Funds.CLEAR),
        (Caps(grid=1_999_999), Funds.REFUSED),
        (Caps(subject=1_999_999), Funds.REFUSED),
        (Caps(day=1_999_999), Funds.REFUSED),
        (Caps(per_hour=1_000_000), Funds.CLEAR),
        (Caps(per_hour=999_999), Funds.REFUSED),
    ],
)
def test_machine_is_refused_when_it_alone_passes_a_bound(caps: Caps, said: Funds) -> None:
    """The cap itself may be spent to the last micro-dollar, and not one more."""
    assert funds(caps) is said


@pytest.mark.parametrize(
    ("other", "caps", "said"),
    [
        (promise("b"), Caps(grid=3_999_999), Funds.WAIT),
        (promise("b"), Caps(grid=4_000_000), Funds.CLEAR),
        (promise("b", grid="demo"), Caps(grid=2_000_000), Funds.CLEAR),
        (promise("b", subject="cell-b"), Caps(subject=2_000_000), Funds.CLEAR),
        (promise("b", grid="demo"), Caps(day=3_999_999), Funds.WAIT),
        (promise("b"), Caps(per_hour=1_999_999), Funds.WAIT),
    ],
)
def test_machine_waits_when_others_may_still_cost_too_much(
    other: Promise, caps: Caps, said: Funds
) -> None:
    """Others' promises count in full, for the bounds that they share."""
    assert funds(caps, other) is said


def test_machine_is_allowed_when_others_cost_less_than_promised() -> None:
    """A cost replaces its promise; half an hour of two leaves room."""
    other, caps = promise("b"), Caps(grid=2_500_000)

    assert funds(caps, other) is Funds.WAIT
    assert funds(caps, other, costs=(Cost("b", DAY, DAY + 1800, 1_000_000),)) is Funds.CLEAR
    assert funds(caps, other, costs=(Cost("b", DAY, DAY + 1801, 1_000_000),)) is Funds.REFUSED


def test_machine_counts_on_when_it_overstays_its_deadline() -> None:
    """A machine that did not end goes on costing, so its promise grows."""
    other, caps = promise("b"), Caps(grid=5_000_000)

    assert funds(caps, other, now_s=DAY + 3 * HOUR) is not Funds.CLEAR
    assert funds(caps, other, now_s=DAY + 2 * HOUR) is Funds.CLEAR


def test_day_is_split_when_a_machine_runs_over_midnight() -> None:
    """Each day bears only what falls into it."""
    wanted = promise(begin_s=DAY - HOUR, deadline_s=DAY + HOUR)
    caps = Caps(day=1_000_000)

    assert allow(Books((wanted,), ()), wanted, caps, DAY).funds is Funds.CLEAR
    later = Cost("x", DAY + 2 * HOUR, DAY + 2 * HOUR + 1, 1_000_000)
    assert allow(Books((wanted,), (later,)), wanted, caps, DAY).funds is Funds.REFUSED


@given(st.integers(0, 10**9), st.lists(st.integers(1, 10**5), min_size=1, max_size=20))
def test_cost_is_never_less_when_it_is_counted_in_pieces(per_h: int, pieces: list[int]) -> None:
    """Rounding is upwards, whole, and by less than a micro-dollar a piece."""
    whole_, begin, summed = microusd(per_h, 0, sum(pieces)), 0, 0
    for piece in pieces:
        summed, begin = summed + microusd(per_h, begin, begin + piece), begin + piece

    assert whole_ <= summed < whole_ + len(pieces)
    assert whole_ * HOUR >= per_h * sum(pieces)


def test_whole_seconds_contain_the_span_when_it_is_broken() -> None:
    """Nothing falls off at either side."""
    assert whole(0.9, 1.1) == (0, 2)


def test_bill_counts_instead_of_our_measure_when_it_is_known() -> None:
    """To the micro-dollar, for its grid; split over days; a cost without a bill is named."""
    costs = Cost("a", DAY - HOUR, DAY + HOUR, 1_000_000), Cost("b", DAY, DAY + HOUR, 1_000_000)
    books = Books((promise("a"),), costs, (Bill("a", 1_500_001, DAY - HOUR, DAY + HOUR),))

    assert [(span.grid, span.cost) for span in books.spent()] == [
        ("paper", 1_500_001),
        ("", 1_000_000),
    ]
    assert books.unbilled() == costs[1:]
    billed = next(books.spent())
    assert billed.within(DAY, DAY + DAY_S) == billed.within(DAY - DAY_S, DAY) == 750_001
    assert billed._replace(begin_s=DAY, end_s=DAY).within(DAY, DAY + 1) == 1_500_001
    assert billed._replace(begin_s=DAY, end_s=DAY).within(DAY - 1, DAY) == 0
