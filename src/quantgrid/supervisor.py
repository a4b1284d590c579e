"""The parent of a detached controller: it waits, ends what is left over, and says how it ended.

It leads a session of its own, without a terminal, so that neither a closed terminal nor a dropped
connection reaches the grid.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from quantgrid import atomic, layout, noticing, processes, standing, stopping
from quantgrid.clock import SystemClock, timestamp
from quantgrid.controller import SUPERVISOR
from quantgrid.standing import Holder

GRACE_S = 30.0
"""For jobs of a controller that died before it said what its platform gives them."""


def start(root: Path, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
    """Start a supervisor for a controller, with a log for both.

    Args:
        root: The working copy.
        name: The controller's name.
        command: The controller's program and its arguments.
    """
    log = root / layout.controller_log(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            # -P: no file of the working copy stands in for a module
            [sys.executable, "-P", "-m", "quantgrid.supervisor", name, *command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def supervise(root: Path, name: str, command: list[str]) -> int:
    """Run a controller to its end and beyond; its exit code."""
    clock = SystemClock()
    environment = {**os.environ, processes.MARK: name, SUPERVISOR: str(os.getpid())}
    child = subprocess.Popen(command, cwd=root, env=environment)
    holder = Holder(name, child.pid, atomic.start_of(child.pid), processes.place(), "", "", 0, ())

    def forward(_: int, __: FrameType | None) -> None:
        stopping.ask(holder, holder.family(), set())

    signal.signal(signal.SIGTERM, forward)
    code = child.wait()
    left = stopping.stop(holder, _grace_s(root, name))
    facts = {"controller": name, "exit_code": code, "at": timestamp(clock.now()), "killed": left}
    atomic.publish_json(root / layout.controller_end(name), facts)
    noticing.of_controller(root, name, code)
    return code if code >= 0 else 128 - code


def _grace_s(root: Path, name: str) -> float:
    """What the platform of the controller gives its jobs, where it came to say so."""
    said = standing.look(root).holder
    grace_s = said.grace_s if said and said.id == name else None
    return GRACE_S if grace_s is None else grace_s


if __name__ == "__main__":
    sys.exit(supervise(Path.cwd(), sys.argv[1], sys.argv[2:]))
