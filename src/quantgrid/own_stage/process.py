"""The running program: started in its private folder, looked at until it ends."""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

from quantgrid.errors import ConfigRefusal, QuantgridError

LOOK_EVERY_S = 0.2
"""Between two looks at checkpoint and metrics; what a kill in between loses is one save at most."""

LOOK_SOON_S = 0.05
"""While a checkpoint waits to be kept: a program that saves often leaves few moments for it."""

_STOP_WITHIN_S = 10
_PR_SET_PDEATHSIG = 1


class Interruption:
    """Whether somebody asked this process to stop; the program, in the same group, hears it too."""

    def __init__(self) -> None:
        self.came = False
        self._before = {number: signal.getsignal(number) for number in _ASKING}

    def __enter__(self) -> "Interruption":
        for number in _ASKING:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, old in self._before.items():
            signal.signal(number, old)

    def _note(self, _: int, __: FrameType | None) -> None:
        self.came = True


_ASKING = (signal.SIGTERM, signal.SIGINT)


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    look: Callable[[Callable[[], bool]], bool],
    feed: Callable[[str], None] | None,
) -> int:
    """Start a program and look at it until it ends.

    Args:
        command: The command line.
        folder: Where it is started.
        environment: All of its variables.
        look: Called every `LOOK_EVERY_S`, or `LOOK_SOON_S` after it said that something is due;
            it may ask whether the program lives, and what it raises ends the program.
        feed: Gets the program's output, which goes on to ours; None if nobody needs it.

    Returns:
        Its exit code, negative for a signal.

    Raises:
        ConfigRefusal: when it cannot be started.
    """
    program = _start(command, folder, environment, is_read=feed is not None)
    output, ended = program.stdout, os.pidfd_open(program.pid)
    poller = _poller(ended, output)
    is_due = False
    try:
        while program.poll() is None:
            poller.poll((LOOK_SOON_S if is_due else LOOK_EVERY_S) * 1000)
            _pass_on(output, feed, poller)
            is_due = look(lambda: program.poll() is None)
        _pass_on(output, feed, poller)
    except QuantgridError:
        _stop(program)
        raise
    finally:
        os.close(ended)
    return program.returncode


def _poller(ended: int, output: IO[bytes] | None) -> select.poll:
    poller = select.poll()
    poller.register(ended, select.POLLIN)
    if output is not None:
        os.set_blocking(output.fileno(), False)
        poller.register(output, select.POLLIN)
    return poller


def _start(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, is_read: bool
) -> subprocess.Popen[bytes]:
    sys.stdout.flush()
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_read else None,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        raise _unstartable(Path(command[0]), error) from error


def _unstartable(program: Path, error: OSError) -> ConfigRefusal:
    """Why a program that is there cannot be started; its private copy is gone when this is read."""
    with suppress(OSError), program.open("rb") as file:
        first = file.readline(200).decode(errors="replace").strip()
        return ConfigRefusal(
            f"{program.name} cannot be started: {error.strerror}",
            expected="a first line such as #!/bin/sh with an interpreter that is installed",
            seen=repr(first),
            do="Mend the first line of the script, or its end of lines if it came from Windows.",
        )
    return ConfigRefusal(f"{program} cannot be started", seen=error.strerror)


def _die_with_parent() -> None:
    """A program whose runner was killed would compute for nobody, beside its own next attempt."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _pass_on(
    output: IO[bytes] | None, feed: Callable[[str], None] | None, poller: select.poll
) -> None:
    """Everything that the program has written so far goes to our output, and is looked at."""
    if output is None or feed is None:
        return
    while True:
        try:
            data = os.read(output.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            with suppress(KeyError):
                poller.unregister(output)
            return
        os.write(sys.stdout.fileno(), data)
        feed(data.decode(errors="replace"))


def _stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
