"""How anybody reaches the platform: one line out, one line in, and a deadline on both."""

import json
import socket
from typing import Any


class NoReply(Exception):
    """No whole reply came: whether it was done is not known."""


def call(address: str, token: str, operation: str, timeout_s: float, /, **arguments: Any) -> Any:
    """One call; the reply as it came.

    Raises:
        NoReply: when none came in time, or only a part of one.
    """
    host, _, port = address.partition(":")
    request = {"token": token, "operation": operation, "with": arguments}
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as line:
            line.sendall(json.dumps(request).encode() + b"\n")
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as file:
                reply = file.readline()
    except OSError as error:
        raise NoReply(f"{type(error).__name__}: {error}") from error
    if not reply.endswith(b"\n"):
        raise NoReply(f"{len(reply)} bytes of a reply")
    return json.loads(reply)
