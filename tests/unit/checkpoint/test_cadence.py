"""When the state is kept: an early first save, then the interval that wastes the least."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgrid.checkpoint.cadence import OVERHEAD_CAP, Cadence, interval_s

costs = st.floats(1e-3, 600)
interruptions = st.floats(10, 1e7)


def _waste(interval: float, cost_s: float, interruption_s: float) -> float:
    """Expected wall time per useful time, minus 1, without restart (Daly's complete model)."""
    return (
        interruption_s / interval * math.expm1((interval + cost_s) / interruption_s) - 1
        if interval + cost_s < 700 * interruption_s
        else math.inf
    )


def test_interval_is_that_of_the_worked_example_when_a_desk_is_stopped_every_four_hours() -> None:
    """0.30 s and 4 h give 93 s (PE 2.1), and a cap of 1 % leaves them alone."""
    assert interval_s(0.30, 4 * 3600) == pytest.approx(93, abs=0.5)


@given(cost_s=costs, interruption_s=interruptions)
def test_interval_keeps_overhead_under_the_cap(cost_s: float, interruption_s: float) -> None:
    """Whatever a save costs, at most 1 % of the time goes into it."""
    interval = interval_s(cost_s, interruption_s)

    assert cost_s / (cost_s + interval) <= OVERHEAD_CAP * (1 + 1e-9)


@given(cost_s=costs, interruption_s=interruptions, factor=st.floats(0.2, 5))
def test_interval_wastes_least_when_the_cap_allows(
    cost_s: float, interruption_s: float, factor: float
) -> None:
    """No other interval beats Daly's by more than its own error in the exact model."""
    interval = interval_s(cost_s, interruption_s, cap=1.0)
    least = _waste(interval, cost_s, interruption_s)

    if cost_s < interruption_s / 2:
        assert _waste(interval * factor, cost_s, interruption_s) >= least * 0.995


def _cadence(**changes: float) -> Cadence:
    options: dict[str, float] = {"interruption_s": 3600, "start_s": 0.0, **changes}
    return Cadence(size_bytes=100_000_000, **options)


def test_first_save_is_early_when_nothing_is_measured() -> None:
    """100 MB are presumed to cost 0.1 s: due after 10 s and three steps."""
    cadence = _cadence()
    cadence.step(4.0)
    cadence.step(11.0)
    assert not cadence.is_due(11.0)

    cadence.step(11.5)

    assert cadence.is_due(11.5)
    assert not cadence.is_due(9.9)


def test_interval_follows_what_saves_cost_when_measured() -> None:
    """A save that costs ten times what was presumed is made more seldom."""
    cadence = _cadence()
    for now in (1.0, 2.0, 3.0):
        cadence.step(now)
    cadence.resumed(20.0)
    cadence.saved(cost_s=1.0, save_s=4.0)

    assert cadence.interval_s == pytest.approx(interval_s(1.0, 3600))
    assert not cadence.is_due(20.0 + 98.0)
    assert cadence.is_due(20.0 + 100.0)


def test_margin_holds_two_saves_a_step_and_a_part_of_the_grace() -> None:
    """Saves of 4 s and steps of 2 s under a grace of 60 s need 13 s."""
    cadence = _cadence()
    for now in (2.0, 4.0, 6.0):
        cadence.step(now)
    cadence.saved(cost_s=1.0, save_s=4.0)

    assert cadence.margin_s(60) == pytest.approx(2 * 4 + 2 + 3)


def test_margin_forgets_an_hour_when_the_process_was_stopped() -> None:
    """One step of an hour, by SIGSTOP, does not make the process leave an hour early."""
    cadence = _cadence()
    for now in (1.0, 2.0, 3602.0, 3603.0, 3604.0):
        cadence.step(now)

    assert cadence.margin_s(0) < 2
