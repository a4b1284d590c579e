"""Programs of Python as processes forked from one that has everything imported already.

Most of what a `snakemake -n` costs is the import of Snakemake: 1.6 s of processor time, paid by
several hundred calls of the tests.  A server pays it once and forks a process a call: a real one,
with working directory, environment, streams, group and exit code of its own.  Tests of how a
program starts, of detaching and of kills start real interpreters all the same.
"""

import atexit
import contextlib
import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PRELOADED = (
    "snakemake.cli",
    "snakemake.storage",
    "snakemake.report.html_reporter",
    "snakemake_logger_plugin_quantgrid",
    "docutils.parsers.rst.directives.images",
    "smart_open",
    "jsonschema",
    "yte",
    "quantgrid.main",
    "quantgrid.workflow",
    "quantgrid.commands.archive",
    "quantgrid.commands.fold",
    "quantgrid.commands.table",
    "quantgrid.store.s3",
)
PLUGINS = (str(Path(__file__).parent / "plugins"), str(Path(__file__).parents[1]))
"""Where the executor of the plain platform is: Snakemake looks for plugins once, in the server.

A program finds them there only when its own PYTHONPATH says so.
"""
_PR_SET_PDEATHSIG = 1


class Forked:
    """A program that runs: the part of `subprocess.Popen` that tests use.

    Args:
        command: `sys.executable -m MODULE ...`, the only programs that can be forked.
        cwd: Its working directory.
        env: Its environment.
        stdout: Where it writes.
        stderr: Likewise.
        stdin: What it reads; nothing by default.
        leads: Nothing, a `group` of its own, or a `session` whose terminal is its input.
    """

    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: IO[Any] | int,
        stderr: IO[Any] | int,
        stdin: IO[Any] | int | None = None,
        leads: str = "",
    ) -> None:
        python, flag, module, *arguments = command
        assert (python, flag) == (sys.executable, "-m"), command
        self.returncode: int | None = None
        told, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told = told
        asked = [module, arguments, str(cwd), dict(env), leads]
        with Path(os.devnull).open() as nothing, tempfile.TemporaryFile() as request, tells:
            request.write(json.dumps(asked).encode())
            request.seek(0)
            given = nothing if stdin in {None, subprocess.DEVNULL} else stdin
            streams = [given, stdout, stderr, tells, request]
            fds = [each if isinstance(each, int) else each.fileno() for each in streams]
            socket.send_fds(_server(), [b"fork"], fds)
        self.pid = int(self._hear(None))

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end: its exit code."""
        if self.returncode is None:
            self.returncode = int(self._hear(timeout))
            self._told.close()
        return self.returncode

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _hear(self, timeout: float | None) -> bytes:
        self._told.settimeout(timeout if timeout != 0 else 0.001)
        try:
            said = self._told.recv(64)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired("a forked program", timeout or 0) from None
        assert said, "the server of forked programs is gone"
        return said


def run(
    command: list[str], *, cwd: Path, env: Mapping[str, str], timeout: float, apart: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, as `subprocess.run` does.

    Args:
        command: Any; only a module of this interpreter is forked.
        cwd: Its working directory.
        env: Its environment.
        timeout: Seconds after which it is killed.
        apart: Whether standard error is kept apart from standard output.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as apart_file:
        err = apart_file if apart else out
        kind = Forked if command[:2] == [sys.executable, "-m"] else subprocess.Popen
        process = kind(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        texts = []
        for file in (out, apart_file):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(command, code, *texts)


@cache
def _server() -> socket.socket:
    """The server of this test process; it ends when this process does, and so do its programs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    paths = [*PLUGINS, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *PRELOADED],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    atexit.register(_end, process, ours)
    return ours


def _end(process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
    ours.close()
    process.wait(180)


# -- the server's side ----------------------------------------------------------------------------


def serve(door: socket.socket, preloaded: list[str]) -> None:
    """Fork a keeper for every request; it forks the program, waits for it and tells its end."""
    import gc

    for name in preloaded:
        import_module(name)
    if "snakemake.cli" in preloaded:  # compiles patterns, finds the plugins
        sys.modules["snakemake.cli"].get_argument_parser()
    assert not {"quantlm", "torch"} & set(sys.modules), "science belongs to each working copy"
    gc.collect()
    gc.freeze()  # or each fork copies what the collector touches
    own = os.getpid()
    while True:
        data, fds, _, _ = socket.recv_fds(door, 16, 8)
        if not data:
            return
        if os.fork() == 0:
            _die_with(own)
            _keep(door, fds)
        for each in fds:
            os.close(each)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # a keeper whose program ended


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends (prctl(2)), however that comes."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _keep(door: socket.socket, fds: list[int]) -> None:
    door.close()
    with os.fdopen(fds[4], "rb") as file:
        request = json.loads(file.read())
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        _die_with(own)
        os.close(fds[3])
        _become(fds[:3], *request)
    if request[-1] == "group":
        with contextlib.suppress(OSError):  # it may have done so, and more
            os.setpgid(pid, pid)  # before anybody knows its number
    for each in fds[:3]:
        os.close(each)
    with socket.socket(fileno=fds[3]) as tells, contextlib.suppress(BrokenPipeError):
        tells.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        tells.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(
    fds: list[int], module: str, arguments: list[str], cwd: str, env: dict[str, str], leads: str
) -> None:
    """Be the program: never returns."""
    if leads == "group":
        os.setpgid(0, 0)
    elif leads == "session":
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for number, each in enumerate(fds):
        os.dup2(each, number)
        os.close(each)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = [module, *arguments]
    sys.path[:] = [path for path in sys.path if path not in PLUGINS]
    sys.path[:1] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    with contextlib.suppress(ImportError):
        import_module("sitecustomize")  # as an interpreter does that starts
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
