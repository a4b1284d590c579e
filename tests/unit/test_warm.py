"""The warm interpreter: the same process as a cold one, and no death goes unnoticed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from quantgrid import child, contract, warm

_CONTROLLER = """
import sys
import time
from quantgrid import contract, warm_server
import os
warm_server.PRELOADED = ("json",)
warm_server.start()
print(os.environ[contract.WARM], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Desk:
    """A controller with a warm server, and a place for scripts."""

    controller: subprocess.Popen[str]
    folder: Path

    def arguments(self, source: str, name: str = "script") -> list[str]:
        """Arguments of `quantgrid.stages` for one script."""
        script, told = self.folder / f"{name}.py", self.folder / f"{name}.json"
        script.write_text(source)
        variables = {contract.WORK: str(self.folder), contract.RESULT: str(script)}
        told.write_text(json.dumps(variables))
        return [str(script), str(told)]

    def start(self, source: str, name: str = "script") -> child.Child:
        """Run a script in the warm interpreter."""
        started = child.start(self.arguments(source, name), dict(os.environ))
        assert isinstance(started, warm.WarmChild), "no server answered"
        return started


@contextmanager
def controlled() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A controller with a server; both must be gone afterwards."""
    controller = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert controller.stdout is not None
    address = controller.stdout.readline().strip()
    family = psutil.Process(controller.pid).children(recursive=True)
    yield controller, address
    controller.kill()
    controller.wait(timeout=180)
    _, alive = psutil.wait_procs(family, timeout=180)
    assert not alive, "the server outlived its controller"


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """One server for all tests that leave it alive: it imports torch."""
    with controlled() as running:
        yield running


@pytest.fixture
def desk(
    shared: tuple[subprocess.Popen[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    """A place for scripts, with the shared server."""
    monkeypatch.setenv(contract.WARM, shared[1])
    return Desk(shared[0], tmp_path)


@pytest.fixture
def own_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A place for scripts, with a server that the test may kill."""
    with controlled() as (controller, address):
        monkeypatch.setenv(contract.WARM, address)
        yield Desk(controller, tmp_path)


def wait_for(path: Path, seconds: float = 180) -> str:
    """The text of a file that a script writes whole, when it is there."""
    gone = time.monotonic() + seconds
    while time.monotonic() < gone:
        if path.exists():
            return path.read_text()
        os.sched_yield()
    raise TimeoutError(path)


def test_warm_child_ends_with_the_code_of_its_script(desk: Desk) -> None:
    """Exit codes come back as from a process of one's own."""
    assert desk.start("raise SystemExit(75)").wait()[0] == 75


def test_warm_child_reports_its_own_cpu_time(desk: Desk) -> None:
    """The time of the preload is not the cell's."""
    code, cpu_s = desk.start("sum(range(3_000_000))").wait()

    assert code == 0
    assert 0 < cpu_s < 5


def test_warm_child_has_our_environment_and_folder(desk: Desk) -> None:
    """Environment, working directory and argv are those of a cold start."""
    source = "import os, sys; open('seen', 'w').write(f'{os.getcwd()} {sys.argv}')"

    assert desk.start(source).wait()[0] == 0

    assert (desk.folder / "seen").read_text() == f"{desk.folder} ['{desk.folder / 'script.py'}']"


def test_warm_child_is_named_with_its_signal_when_killed(desk: Desk) -> None:
    """A signal is negative, as everywhere in Python."""
    assert desk.start("import os; os.kill(os.getpid(), 9)").wait()[0] == -signal.SIGKILL


def test_warm_children_run_side_by_side(desk: Desk) -> None:
    """Two runners are served at once: each waits for the other's file."""
    source = """
import os, time
own, other = {pair!r}
open(own, "w").close()
end = time.monotonic() + 120
while not os.path.exists(other):
    assert time.monotonic() < end
"""
    first = desk.start(source.format(pair=("a", "b")), "first")
    second = desk.start(source.format(pair=("b", "a")), "second")

    assert (first.wait()[0], second.wait()[0]) == (0, 0)


def test_warm_child_dies_when_its_runner_is_killed(desk: Desk) -> None:
    """A script whose runner is gone computes for nobody."""
    source = "import os, time; open('t', 'w').write(str(os.getpid())); os.rename('t', 'pid'); "
    arguments = desk.arguments(source + "time.sleep(600)")
    runner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys; from quantgrid import child; "
            "child.start(sys.argv[1:], dict(os.environ)).wait()",
            *arguments,
        ]
    )
    script = psutil.Process(int(wait_for(desk.folder / "pid")))

    runner.kill()
    runner.wait(timeout=180)

    _, alive = psutil.wait_procs([script], timeout=180)
    assert not alive


def test_warm_child_dies_when_the_controller_is_killed(own_desk: Desk) -> None:
    """The controller takes server and children along; the runner hears of it."""
    source = "import os, time; open('t', 'w').write(str(os.getpid())); os.rename('t', 'pid'); "
    started = own_desk.start(source + "time.sleep(600)")
    wait_for(own_desk.folder / "pid")

    own_desk.controller.kill()

    assert started.wait()[0] == -signal.SIGKILL


def test_script_starts_cold_when_no_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead address costs time, not the cell."""
    monkeypatch.setenv(contract.WARM, "quantgrid-nobody")
    desk = Desk(subprocess.Popen([sys.executable, "-c", ""], text=True), tmp_path)

    started = child.start(desk.arguments("raise SystemExit(3)"), dict(os.environ))

    assert isinstance(started, child.ColdChild)
    assert started.wait()[0] == 3
    desk.controller.wait(timeout=180)


_INTERRUPTED_AT_ONCE = """
import os
import signal
import time
from quantgrid import warm_server

objects = [[] for _ in range(200_000)]  # a fork of torch is slow to come to its senses
for _ in range(20):
    pid = warm_server.fork_with_held_interrupts()
    if pid == 0:
        try:
            warm_server.let_interrupts_in()
            time.sleep(120)
        except KeyboardInterrupt:
            os._exit(7)
        finally:
            os._exit(0)
    os.kill(pid, signal.SIGINT)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), end=" ", flush=True)
"""


def test_child_is_interrupted_when_the_interrupt_comes_right_after_the_fork() -> None:
    """Ctrl-C while a job waits for its interpreter ends that job, and not 30 seconds later."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_AT_ONCE],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.split() == ["7"] * 20, done.stderr
