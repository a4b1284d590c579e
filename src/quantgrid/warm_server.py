"""A warm interpreter: torch is imported once per controller and forked for every job.

Importing torch costs more CPU than many a cell computes (2.3 s against 1 s for a quantised form of
n0).  The controller of a desk starts this server; it imports libraries, never this project's
science, and forks for each runner that asks.  Its address is an abstract Unix socket, which leaves
no file behind; only processes of the same user are served.  Every death is followed: a controller
that dies takes the server along, the server its children, a runner its child.
"""

import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from quantgrid import contract

PRELOADED = (
    "numpy",
    "torch",
    "torch._inductor.config",
    "safetensors.torch",
    "quantgrid.stages",
    "quantgrid.corpus.view",
)
"""Every optimiser imports the third, which costs as much again as torch itself."""

_PR_SET_PDEATHSIG = 1
_FDS = 3
_MAX_REQUEST = 1 << 20
_PATIENCE_S = 2.0


def start() -> None:
    """Start a server that dies with this process, and tell its address to processes started later.

    Does nothing where the kernel has no abstract sockets.
    """
    if not sys.platform.startswith("linux"):
        return
    address = f"quantgrid-{os.getpid()}-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as listener:
        # bound here, so that the first runner finds it and waits while the server imports
        listener.bind(f"\0{address}")
        listener.listen(64)
        descriptor = listener.fileno()
        subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "quantgrid.warm_server",
                str(descriptor),
                str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[descriptor],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    os.environ[contract.WARM] = address


@dataclass(slots=True)
class Server:
    """Forks one child per connection and reports its end there."""

    listener: socket.socket
    children: dict[int, socket.socket] = field(default_factory=dict)

    def serve(self) -> None:
        """Serve until killed."""
        wake_reader, wake_writer = socket.socketpair()
        for end in (wake_reader, wake_writer):
            end.settimeout(0)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wake_writer.fileno())
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            selector.register(wake_reader, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self.listener:
                        self._accept(selector)
                    elif key.fileobj is wake_reader:
                        wake_reader.recv(4096)
                        self._reap(selector)
                    else:
                        self._abandon(key.fileobj, selector)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        connection, _ = self.listener.accept()
        asked = _find_request(connection) if _peer_uid(connection) == os.getuid() else None
        if asked is None:
            connection.close()
            return
        request, streams = asked
        pid = fork_with_held_interrupts()
        if pid == 0:
            _run(request, streams)
        with suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        for stream in streams:
            os.close(stream)
        self.children[pid] = connection
        selector.register(connection, selectors.EVENT_READ)
        _tell(connection, {"pid": pid})

    def _reap(self, selector: selectors.BaseSelector) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self.children.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                cpu_s = round(usage.ru_utime + usage.ru_stime, 3)
                _tell(connection, {"exit_code": code, "cpu_s": cpu_s})
                with suppress(KeyError):  # abandoned before
                    selector.unregister(connection)
                connection.close()

    def _abandon(self, connection: Any, selector: selectors.BaseSelector) -> None:
        """A runner is gone: its child computes for nobody."""
        for pid, its in self.children.items():
            if its is connection:
                selector.unregister(connection)
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


def fork_with_held_interrupts() -> int:
    """Fork; the child keeps an interrupt until it lets it in (`let_interrupts_in`).

    After a fork Python throws away what came to the child before its interpreter was in order, and
    an interrupt of the runner comes as soon as it knows the child: nine in ten were lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    pid = os.fork()
    if pid:
        let_interrupts_in()
    return pid


def let_interrupts_in() -> None:
    """Take interrupts from now on, and one that waits at once."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _nothing(_: int, __: FrameType | None) -> None:
    return


def _tell(connection: socket.socket, value: Mapping[str, Any]) -> None:
    with suppress(OSError):
        connection.sendall(json.dumps(value).encode() + b"\n")


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def _find_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """What a runner asks for; None from one that died, stopped or said nonsense while it asked.

    Whoever waits here holds up all others, so that patience is short: the runner starts cold.
    """
    streams: list[int] = []
    try:
        connection.settimeout(_PATIENCE_S)
        data, streams, _, _ = socket.recv_fds(connection, 1, _FDS)
        while not data.endswith(b"\n"):
            more = connection.recv(_MAX_REQUEST)
            if not more:
                raise ConnectionResetError
            data += more
        connection.settimeout(None)
        request = json.loads(data)
        if isinstance(request, dict) and len(streams) == _FDS:
            return request, streams
    except (OSError, ValueError):
        pass
    for stream in streams:
        os.close(stream)
    return None


def _run(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """In the child: become the process that the runner asked for, and never return."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(_FDS, 256)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        from quantgrid import stages

        let_interrupts_in()
        code = stages.main([str(os.getppid()), *request["arguments"]])
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except Exception:  # noqa: BLE001 - nothing may return into the server's code
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve at the inherited socket of the first argument, for the controller of the second."""
    _die_with_parent()
    if os.getppid() != int(sys.argv[2]):
        return
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        for name in PRELOADED:
            with suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()  # children share these pages: a collection must not touch and so copy them
        Server(listener).serve()


if __name__ == "__main__":
    main()
