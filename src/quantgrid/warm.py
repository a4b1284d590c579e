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

ADDRESS = "QG_WARM"
"""Environment variable with the address of the controller's server."""


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


def ask(arguments: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> WarmChild | None:
    """Have the server run `quantgrid.stages` with arguments; None when no server answers.

    The child gets this process's standard streams, a process group of its own, the working
    directory and the environment.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return None
    connection = socket.socket(socket.AF_UNIX)
    request = {"arguments": list(arguments), "cwd": cwd, "environment": dict(environment)}
    data = json.dumps(request).encode() + b"\n"
    try:
        connection.connect(f"\0{address}")
        socket.send_fds(connection, [data[:1]], [0, 1, 2])
        connection.sendall(data[1:])
        said = _read_line(connection)
    except OSError:
        said = None
    if said is None:
        connection.close()
        return None
    return WarmChild(int(said["pid"]), connection)


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
