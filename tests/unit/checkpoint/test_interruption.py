"""A process leaves when it is asked, or when its time ends; asked twice, at once."""

import os
import signal
import subprocess
import sys

import pytest

from checkpoint_parts import HandClock
from quantgrid.checkpoint.interruption import Interruption


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interruption_is_told_when_a_signal_came(number: signal.Signals) -> None:
    """The block goes on, knows which signal it was, and gives the old reaction back."""
    before = signal.getsignal(number)

    with Interruption(HandClock(), None) as interruption:
        assert interruption.find_reason() is None
        os.kill(os.getpid(), number)
        assert interruption.find_reason() == f"{number.name} came"

    assert signal.getsignal(number) is before


def test_interruption_is_told_when_time_ends_within_the_margin() -> None:
    """The own clock needs no signal."""
    clock = HandClock()
    interruption = Interruption(clock, clock.seconds + 100)

    assert interruption.find_reason(99) is None
    assert interruption.find_reason(100) == "its time ends in 100.0 s"
    clock.seconds += 200
    assert interruption.find_reason() == "its time ends in 0.0 s"


def test_interruption_is_one_request_when_two_signals_come_together() -> None:
    """A runner and a terminal that both pass it on do not kill the process."""
    with Interruption(HandClock(), None) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

        assert interruption.find_reason() == "SIGINT came"


TWICE = """
import os, signal
from checkpoint_parts import HandClock
from quantgrid.checkpoint.interruption import Interruption
clock = HandClock()
with Interruption(clock, None):
    os.kill(os.getpid(), signal.SIGTERM)
    clock.seconds += 2
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here")
"""


def test_interruption_ends_the_process_when_asked_twice() -> None:
    """Whoever asks again does not want to wait for a save."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
