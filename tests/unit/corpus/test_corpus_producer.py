"""A producer can be told from every other process, and found dead."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

from quantgrid.atomic import start_of
from quantgrid.corpus.producer import Producer
from quantgrid.processes import place


def _child() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_producer_runs_when_it_is_this_process() -> None:
    """This process sees itself, and each name of it is another one of the same process."""
    one, other = Producer.here(), Producer.here()

    assert one.runs() is True
    assert one.is_same_process(other)
    assert one.id != other.id
    assert str(os.getpid()) in str(one)


def test_producer_is_dead_when_it_was_killed_and_not_yet_waited_for() -> None:
    """A killed process that its parent has not buried yet writes nothing any more."""
    child = _child()
    producer = replace(Producer.here(), pid=child.pid, start=start_of(child.pid))
    assert producer.runs() is True

    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert producer.runs() is False

    child.communicate(timeout=180)
    assert producer.runs() is False


def test_producer_is_dead_when_its_number_was_given_to_another() -> None:
    """The same process number with another start is another process."""
    assert replace(Producer.here(), start="1").runs() is False


def test_producer_cannot_be_seen_when_it_is_of_another_place() -> None:
    """Another boot, machine or process namespace: nobody can tell from here."""
    assert replace(Producer.here(), place=place() + "x").runs() is None
