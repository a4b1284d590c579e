"""One controller per working copy, and no debris before its first job."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import BOUND_S, archive_in, python, python_path, tree
from quantgrid import layout
from quantgrid.controller import Controller
from quantgrid.errors import HoldRefusal

_CONTROLLER = """
import sys
from pathlib import Path
from quantgrid import entry
from quantgrid.controller import Controller
from quantgrid.store.folder import FolderStore
def main():
    Controller(Path(sys.argv[1]), FolderStore(Path(sys.argv[1]) / "archive")).start()
    print("started", flush=True)
    sys.stdin.readline()
entry.run(main)
"""


def _start(root: Path) -> "subprocess.Popen[str]":
    """A controller that holds a working copy until it is told to end."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    return child


def test_controller_refuses_when_another_runs_here(tmp_path: Path) -> None:
    """The second one ends with 78 and names process, host and working copy of the first."""
    first = _start(tmp_path)

    code, said = python(_CONTROLLER, str(tmp_path), cwd=tmp_path)

    assert code == HoldRefusal.exit_code
    assert f"seen process {first.pid} on {socket.gethostname()}, since 20" in said
    assert f"({tmp_path})" in said
    first.communicate("end\n", timeout=BOUND_S)
    assert python(_CONTROLLER, str(tmp_path), cwd=tmp_path) == (0, "started\n")


def test_controller_starts_when_another_runs_elsewhere(tmp_path: Path) -> None:
    """A clone is another working copy, though both use one archive."""
    first = _start(tmp_path / "one")

    assert python(_CONTROLLER, str(tmp_path / "two"), cwd=tmp_path) == (0, "started\n")
    first.communicate("end\n", timeout=BOUND_S)


def test_controller_starts_when_the_last_one_was_killed(tmp_path: Path) -> None:
    """The lock of a killed controller is free at once: there is nothing to unlock by hand."""
    first = _start(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=BOUND_S)

    second = _start(tmp_path)
    code, said = python(_CONTROLLER, str(tmp_path), cwd=tmp_path)

    assert code == HoldRefusal.exit_code
    assert f"process {second.pid} " in said
    second.communicate("end\n", timeout=BOUND_S)


def test_controller_frees_nothing_when_its_children_outlive_it(tmp_path: Path) -> None:
    """A job that was started before a controller died does not keep the lock."""
    text = _CONTROLLER.replace(
        "    sys.stdin.readline()",
        "    import subprocess; quiet = subprocess.DEVNULL\n"
        "    c = subprocess.Popen(['sleep', '60'], stdout=quiet, stderr=quiet)\n"
        "    print(c.pid, flush=True)",
    )
    code, said = python(text, str(tmp_path), cwd=tmp_path)
    started, child = said.split()

    assert (code, started) == (0, "started")
    try:
        assert python(_CONTROLLER, str(tmp_path), cwd=tmp_path) == (0, "started\n")
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_controller_clears_what_the_dead_left_when_it_starts(tmp_path: Path) -> None:
    """Debris of dead writers goes everywhere; what living ones are writing stays."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=BOUND_S)
    folders = [*layout.PUBLISHED, ".", "archive/.incoming", "results/a/b"]
    kept = set()
    for folder in folders:
        for pid in (child.pid, os.getpid()):
            path = tmp_path / folder / f"x.json.qgpart-{socket.gethostname()}@{pid}@00"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        kept.add(path.relative_to(tmp_path).as_posix())
    for name in (layout.LEDGER, "results/a/b/result.json", "receipts/r.json"):
        (tmp_path / name).write_text("whole")
        kept.add(name)
    for name in (layout.progress_file("r.json"), f"{layout.PROGRESS}/r.json.4711"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    Controller(tmp_path, archive_in(tmp_path).store).start()

    locks = {layout.CONTROLLER_LOCK, layout.CONTROLLER_GATE, layout.ATTEMPTS_LOCK}
    assert set(tree(tmp_path)) == kept | locks


def test_controller_clears_nothing_when_it_is_refused(tmp_path: Path) -> None:
    """A second controller leaves before it touches anything of the first one's."""
    first = _start(tmp_path)
    path = tmp_path / layout.progress_file("r.json")
    path.parent.mkdir(parents=True)
    path.touch()

    with pytest.raises(HoldRefusal):
        Controller(tmp_path, archive_in(tmp_path).store).start()

    assert path.exists()
    first.communicate("end\n", timeout=BOUND_S)


_LOCKED = """
import os, signal, sys, threading
from pathlib import Path
from quantgrid.controller import Controller
from quantgrid.store.folder import FolderStore
lock, heard = threading.Lock(), threading.Event()
def answer(*_):
    with lock:
        heard.set()
signal.signal(signal.SIGTERM, answer)
Controller(Path(sys.argv[1]), FolderStore(Path(sys.argv[1]) / "archive")).start()
with lock:
    os.kill(os.getpid(), signal.SIGTERM)
    print("asked", flush=True)
print(heard.wait(150))
"""


def test_controller_is_not_stuck_when_sigterm_comes_while_it_holds_a_lock(tmp_path: Path) -> None:
    """Snakemake answers SIGTERM under a lock that its main thread may have at that moment."""
    assert python(_LOCKED, str(tmp_path), cwd=tmp_path) == (0, "asked\nTrue\n")


_PRESSED = """
import os, signal, sys, time
from pathlib import Path
from quantgrid.controller import Controller
from quantgrid.store.folder import FolderStore
Controller(Path(sys.argv[1]), FolderStore(Path(sys.argv[1]) / "archive")).start()
for press in (1, 2, 3):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        print(press, "goes on", flush=True)
    except KeyboardInterrupt:
        print(press, "stops", flush=True)
"""


def test_second_interrupt_is_answered_and_a_third_is_not_held(tmp_path: Path) -> None:
    """The first stops, the second gets a sentence, the third breaks off what still goes on."""
    done = subprocess.run(
        [sys.executable, "-c", _PRESSED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )

    assert done.stdout.splitlines() == ["1 stops", "2 goes on", "3 stops"]
    assert "Stopping already: running jobs save their state" in done.stderr


_PRESSED_LATE = """
import os, signal, sys
from pathlib import Path
from quantgrid.controller import Controller
from quantgrid.store.folder import FolderStore
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT, write=os.write):
        kill(pid, number)
        write(1, b"goes on")
Controller(Path(sys.argv[1]), FolderStore(Path(sys.argv[1]) / "archive")).start()
last = Last()
sys.exit(3)
"""


def test_interrupt_after_the_last_words_changes_no_exit_code(tmp_path: Path) -> None:
    """Python has given up its signals when it clears its modules, which takes a while."""
    assert python(_PRESSED_LATE, str(tmp_path), cwd=tmp_path) == (3, "goes on")


_PRESSED_EARLY = """
import os, signal, sys
from pathlib import Path
from quantgrid.controller import Controller, leave_before_the_start
from quantgrid.store.folder import FolderStore
leave_before_the_start()
if sys.argv[2] == "started":
    Controller(Path(sys.argv[1]), FolderStore(Path(sys.argv[1]) / "archive")).start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    sys.exit("Snakemake stops its jobs")
"""


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [("planning", 130, "interrupted: nothing was started."), ("started", 1, "Snakemake stops")],
)
def test_interrupt_is_a_sentence_until_a_controller_starts(
    tmp_path: Path, state: str, code: int, said: str
) -> None:
    """Who reads the plan line and thinks better of it sees no code; later Snakemake answers."""
    done = subprocess.run(
        [sys.executable, "-c", _PRESSED_EARLY, str(tmp_path), state],
        env={**os.environ, **python_path()},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
