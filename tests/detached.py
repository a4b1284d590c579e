"""A tiny working copy whose one long job waits for the test, and a terminal that can be closed."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import forked
from quantgrid import processes, standing
from quantgrid.standing import Standing, State

BOUND_S = 180.0

_SNAKEFILE = """
import sys
from pathlib import Path
from quantgrid.controller import Controller
from quantgrid.errors import QuantgridError
from quantgrid.store.folder import FolderStore
from quantgrid.terminal import Grid, announce
from quantgrid.workflow import stop

print("plan tiny: 2 cells", file=sys.stderr)
announce(Grid("tiny", 2, 0))
JOB = f"exec {sys.executable} -I -S job.py"

rule all:
    input: expand("results/b/{variant}/result.json", variant=["none", "long"])

rule fold:
    input: "receipts/{variant}"
    output: "results/b/{variant}/result.json"
    log: "logs/fold-{variant}.log"
    shell: "cp {input} {output} 2> {log}"

rule base:
    output: "receipts/{variant}"
    log: "logs/base-{variant}.log"
    shell: "{JOB} {wildcards.variant} {output} > {log} 2>&1"

onstart:
    try:
        grace_s = float(config["grace_s"]) if "grace_s" in config else None
        Controller(Path.cwd(), FolderStore(Path.cwd() / "archive"), grace_s=grace_s).start()
    except QuantgridError as error:
        stop(error)
"""

_JOB = """
import os, signal, sys
name, output = sys.argv[1:]

def save(*_):
    open("saved", "w").write(name)
    sys.exit(75)

if name == "long":
    deaf = os.path.exists("deaf")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else save)
    open("working", "w").write(str(os.getpid()))
    said = open("go").read()  # a FIFO: the test opens it when it has seen enough
    if said == "fail":
        sys.exit(print("failed: step 12 has no loss.") or 70)
open(output, "w").write("{}")
"""

_PROFILE = "cores: 2\nscheduler: greedy\nkeep-going: true\nnolock: true\nlogger: quantgrid\n"


@dataclass(frozen=True)
class Desk:
    """The working copy."""

    root: Path

    @classmethod
    def lay(cls, root: Path) -> "Desk":
        """Lay it down."""
        (root / "profiles" / "local").mkdir(parents=True)
        (root / "profiles" / "local" / "profile.yaml").write_text(_PROFILE)
        (root / "Snakefile").write_text(_SNAKEFILE)
        (root / "job.py").write_text(_JOB)
        os.mkfifo(root / "go")
        return cls(root)

    def quantgrid(self, *arguments: str, code: int | None = 0) -> str:
        """Run a command of quantgrid: what it said, both streams together.

        A launch needs an interpreter of its own: what it leaves is known by its environment.
        """
        if arguments[0] == "launch":
            process = self.start(*arguments)
            said, _ = process.communicate(timeout=BOUND_S)
            done = subprocess.CompletedProcess(arguments, process.returncode, said)
        else:
            line = [sys.executable, "-m", "quantgrid", *arguments]
            done = forked.run(line, cwd=self.root, env=os.environ, timeout=BOUND_S)
        assert code is None or done.returncode == code, f"{done.returncode}: {done.stdout}"
        return done.stdout

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command of quantgrid and go on."""
        return subprocess.Popen(
            [sys.executable, "-m", "quantgrid", *arguments],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def look(self) -> Standing:
        """How its controller stands."""
        return standing.look(self.root)

    def await_state(self, *states: State) -> Standing:
        """Wait until the controller stands so."""
        await_true(lambda: self.look().state in states, f"no {states}: {self.look()}")
        return self.look()

    def await_work(self) -> int:
        """Wait until the long job works; its process number."""
        path = self.root / "working"
        await_true(lambda: path.exists() and path.read_text() != "", "the long job never started")
        return int(path.read_text())

    def await_told(self, holds: Callable[[dict[str, object]], bool]) -> None:
        """Wait until the controller has told something of the grid that holds."""
        await_true(lambda: holds(self.look().now), f"never told: {self.look().now}")

    def release(self, said: str = "") -> None:
        """Let the long job go on: it ends well, or fails."""
        (self.root / "go").write_text(said)

    def clear(self) -> None:
        """Whatever a test left running is killed; only what belongs to this working copy.

        A launch that failed before it held the lock is known by its folder alone.
        """
        await_true(self._kill, f"something goes on in {self.root}")

    def _kill(self) -> bool:
        """Kill what runs here; whether nothing did."""
        holder = self.look().holder
        found = [*working_in(self.root), *(holder.family() if holder else [])]
        processes.signal_all(found, signal.SIGKILL)
        return not found

    def saved(self) -> bool:
        """Whether the long job saved its state when it was asked to end."""
        return (self.root / "saved").exists()

    def ends(self) -> list[dict[str, object]]:
        """What supervisors wrote down, oldest first."""
        paths = sorted((self.root / "work" / "controller").glob("2*.json"))
        return [json.loads(path.read_text()) for path in paths]


def working_in(root: Path) -> list[processes.Process]:
    """The living processes whose working directory is a folder, or lies below it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_here = (path / "cwd").readlink().is_relative_to(root)
            found += [processes.find_process(int(path.name))] if is_here else []
    return [each for each in found if each]


def await_true(holds: Callable[[], bool], otherwise: str) -> None:
    """Wait for something that another process does; bounded."""
    deadline = time.monotonic() + BOUND_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


class Terminal:
    """A real terminal that a program runs in, and that can be closed like a window."""

    def __init__(self, root: Path, *command: str) -> None:
        self.text = ""
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # the child leads a session whose terminal this is
            os.chdir(root)
            os.environ.update(TERM="xterm", COLUMNS="80", LINES="24")
            os.execv(command[0], list(command))  # noqa: S606 - a program, no shell
        os.set_blocking(self._master, False)

    def await_text(self, text: str) -> None:
        """Read until a text was shown."""
        await_true(lambda: text in self._read(), f"never shown: {text!r}\n{self.text}")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        """Close the window: the kernel sends SIGHUP and every later write fails."""
        os.close(self._master)

    def wait(self) -> int:
        """Wait for the end of the program: its exit code."""
        codes: list[int] = []

        def has_ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            codes.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(pid)

        await_true(has_ended, f"process {self.pid} did not end\n{self.text}")
        return codes[0]

    def _read(self) -> str:
        with suppress(OSError):  # nothing yet, or the program has ended
            self.text += os.read(self._master, 65536).decode(errors="replace")
        return self.text
