"""A runner that dies while it asks costs the warm server nothing: the next one is served."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core_parts import BOUND_S
from quantgrid import contract, warm

SERVE = """
import socket, sys
from quantgrid import warm_server
warm_server.Server(socket.socket(fileno=int(sys.argv[1]))).serve()
"""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server without its libraries, as runners are told it."""
    name = f"quantgrid-test-{os.getpid()}-{os.urandom(4).hex()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen(8)
        number = listener.fileno()
        server = subprocess.Popen([sys.executable, "-c", SERVE, str(number)], pass_fds=[number])
    monkeypatch.setenv(contract.WARM, name)
    yield name
    server.kill()
    server.wait(timeout=BOUND_S)


def _served(folder: Path) -> int:
    """Have a script run by the server; its exit code."""
    script, environment = folder / "script.py", folder / "contract.json"
    script.write_text("raise SystemExit(7)")
    variables = {contract.WORK: str(folder), contract.RESULT: str(folder / "result.json")}
    environment.write_text(json.dumps(variables))
    child = warm.ask([str(script), str(environment)], dict(os.environ))
    assert child is not None
    child.connection.settimeout(BOUND_S)
    return child.wait()[0]


@pytest.mark.parametrize("sent", [b"", b"{", b'{"arguments": []', b"\n", b"[]\n", b"no json\n"])
def test_warm_server_serves_the_next_when_a_request_was_torn(
    address: str, tmp_path: Path, sent: bytes
) -> None:
    """Whatever part of a request arrived before its runner was killed, others go on."""
    with socket.socket(socket.AF_UNIX) as torn:
        torn.connect(f"\0{address}")
        if sent:
            torn.sendall(sent)

    socket.setdefaulttimeout(BOUND_S)
    try:
        assert _served(tmp_path) == 7
    finally:
        socket.setdefaulttimeout(None)


def test_warm_server_serves_others_when_a_runner_stops_halfway(
    address: str, tmp_path: Path
) -> None:
    """A runner that was stopped in the middle of its request is given up after a while."""
    with socket.socket(socket.AF_UNIX) as halfway:
        halfway.connect(f"\0{address}")
        halfway.sendall(b"{")
        socket.setdefaulttimeout(BOUND_S)
        try:
            assert _served(tmp_path) == 7
        finally:
            socket.setdefaulttimeout(None)
