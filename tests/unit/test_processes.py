"""Who belongs to a controller is known by a name in its environment, never by a number alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from quantgrid import processes

_SLEEP = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> "Iterator[subprocess.Popen[str]]":
    """A process that carries the name `ours`, with a child of its own that carries it too."""
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_SLEEP!r}])"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, processes.MARK: "ours"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    yield child
    child.communicate("", timeout=180)


def test_marked_finds_the_whole_family_when_asked(child: "subprocess.Popen[str]") -> None:
    """Children of children carry the name; a name that only begins alike is another one."""
    found = processes.marked("ours")

    assert len(found) == 2
    assert child.pid in {each.pid for each in found}
    assert processes.marked("our") == []


def test_process_is_halted_when_a_signal_stopped_it(child: "subprocess.Popen[str]") -> None:
    """SIGSTOP is seen, SIGCONT too."""
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    halted = processes.find_process(child.pid)
    child.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WCONTINUED)
    running = processes.find_process(child.pid)

    assert halted is not None
    assert halted.is_halted
    assert running is not None
    assert not running.is_halted


def test_signal_reaches_nobody_when_the_number_was_given_to_another(
    child: "subprocess.Popen[str]",
) -> None:
    """A process number with another start is another process, and is left alone."""
    found = processes.find_process(child.pid)
    assert found is not None

    processes.signal_all([found._replace(start="1")], signal.SIGKILL)
    assert child.poll() is None
    assert processes.find_process(child.pid) == found
