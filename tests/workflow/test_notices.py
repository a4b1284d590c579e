"""An alarm, a dead controller and a finished grid are each told once, by whoever lives."""

import os
import signal
from collections.abc import Iterator

import pytest

from detached import await_true
from listener import Listener, listening
from quantgrid import processes, standing
from working_copy import WorkingCopy

ONE = "select=cell = n0-t20k-s0/none"


@pytest.fixture
def listener(fresh: WorkingCopy) -> Iterator[Listener]:
    """A webhook that the configuration of the working copy names."""
    with listening() as found:
        fresh.edit("config/config.yaml", 'webhook: ""', f"webhook: {found.address}")
        yield found


def kinds(listener: Listener) -> list[str]:
    """What was heard."""
    return [each["kind"] for each in listener.heard]


def test_alarm_is_told_once_when_a_script_raises_it(
    fresh: WorkingCopy, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner tells of the cell, the controller of the grid; a second run tells its own end."""
    alarm = "trunk:import sys; print('alarm: the gap is 0.31 nats', file=sys.stderr); sys.exit(76)"
    fresh.snakemake("corpus", "--config", ONE, "grid=smoke", grid="")
    assert kinds(listener) == []  # a part that was asked for is no grid that is done
    monkeypatch.setenv("LIGHT_FAIL", alarm)

    fresh.snakemake("--config", ONE, "grid=smoke", code=1, grid="")
    assert kinds(listener) == ["alarm", "fault"]
    assert "the gap is 0.31 nats" in listener.heard[0]["text"]
    assert "n0-s0/16384" in listener.heard[1]["text"]

    monkeypatch.setenv("LIGHT_FAIL", "")
    fresh.snakemake("--config", ONE, "grid=smoke", grid="")
    assert kinds(listener) == ["alarm", "fault", "done"]


def test_silence_is_told_once_when_the_controller_is_killed(
    fresh: WorkingCopy, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor tells it, although the controller cannot; the state of the job is kept."""
    monkeypatch.setenv("LIGHT_WORK_S", "1")
    monkeypatch.setenv("LIGHT_UNTIL", str(fresh / "never"))
    fresh.quantgrid("launch", "--", "--config", ONE, "grid=smoke")
    await_true(
        lambda: any(fresh.root.glob("volume/state/*/*/*.link.json")), "the trunk saved nothing"
    )
    holder = standing.look(fresh.root).holder
    assert holder is not None
    try:
        os.kill(holder.pid, signal.SIGKILL)
        await_true(lambda: "silence" in kinds(listener), f"nobody told it: {listener.heard}")
        await_true(lambda: not holder.family(), "something of it goes on")
    finally:
        processes.signal_all(holder.family(), signal.SIGKILL)

    assert kinds(listener).count("silence") == 1
    assert "the controller died" in listener.heard[0]["text"]
