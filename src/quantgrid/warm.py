"""The runner's side of the warm interpreter: ask for a process that has torch imported already.

See `warm_server` for why and how.  A runner that finds no server starts an interpreter of its own:
the result is the same, later.
"""

import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quantgrid import contract


@dataclass(frozen=True, slots=True)
class WarmChild:
    """A process that the server forked for this runner."""

    pid: int
    connection: socket.socket

    def wait(self) -> tuple[int, float]:
        """Exit code (negative for a signal) and CPU seconds, when the process has ended."""
        said = _read_line(self.connection)
        self.connection.close()
        if said is None:
            return -int(signal.SIGKILL), 0.0
        return int(said["exit_code"]), float(said["cpu_s"])


def ask(
    arguments: Sequence[str], environment: Mapping[str, str], *, output: int = 1, errors: int = 2
) -> WarmChild | None:
    """Have the server run `quantgrid.stages` with arguments; None when no server answers.

    The child writes to `output` and `errors`; it gets an empty input, a process group of its own,
    the working directory and the environment.
    """
    request = {
        "arguments": list(arguments),
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib costs what this saves
        "environment": dict(environment),
    }
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(f"\0{os.environ[contract.WARM]}")
        _send(connection, json.dumps(request).encode() + b"\n", output, errors)
        said = _read_line(connection)
    except OSError:
        said = None
    if said is None:
        connection.close()
        return None
    return WarmChild(int(said["pid"]), connection)


def _send(connection: socket.socket, data: bytes, output: int, errors: int) -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        socket.send_fds(connection, [data[:1]], [empty, output, errors])
    finally:
        os.close(empty)
    connection.sendall(data[1:])


def _read_line(connection: socket.socket) -> dict[str, Any] | None:
    """One JSON line, byte by byte: what follows belongs to the next reader."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            return None
        line += byte
    value: dict[str, Any] = json.loads(line)
    return value
