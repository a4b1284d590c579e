"""What a machine is told travels as names and values, and comes back as it was."""

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.briefing import Briefing

TOLD = Briefing(
    store="s3://bucket/prefix",
    subject="a" * 64,
    nonce="0123456789ab",
    deadline=1_796_000_000.125,
    platform="plain",
    id_variable="PLAIN_MACHINE",
    gpus=2,
    beat_s=30.0,
    clock_factor=3600.0,
)


def test_briefing_comes_back_when_written_and_read() -> None:
    """Every field keeps its value and its type, the moment of the deadline to a millisecond."""
    assert Briefing.parse(dict(TOLD.environment())) == TOLD


def test_briefing_is_refused_when_something_is_missing_or_no_number() -> None:
    """A process that was not started by an executor says what it lacks."""
    told = dict(TOLD.environment())
    del told["QG_LEASE_NONCE"]

    with pytest.raises(ConfigRefusal, match="nothing for QG_LEASE_NONCE"):
        Briefing.parse(told)
    with pytest.raises(ConfigRefusal, match="no-number"):
        Briefing.parse(dict(TOLD.environment()) | {"QG_LEASE_BEAT_S": "no-number"})


def test_seconds_are_divided_when_the_clock_is_faster() -> None:
    """An hour of the platform is a second here."""
    assert TOLD.real(7200.0) == 2.0
