"""Runs the Python scripts of one job one after the other in one interpreter.

Importing torch costs two CPU-seconds, more than many a cell; sharing the interpreter pays it once.
Each script runs as `__main__` under its own contract, as if it had been started alone.
"""

import ctypes
import json
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from quantgrid import contract, entry, layout
from quantgrid.errors import Fault

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run scripts; the first exit code that is not 0 ends the job.

    Args:
        arguments: Process id of the runner, then alternating script and path of the JSON file with
            its contract variables.
    """
    runner, *rest = arguments
    _die_with(int(runner))
    try:
        return _run_all(rest)
    except KeyboardInterrupt:  # between two scripts
        return 128 + signal.SIGINT
    finally:
        _end_descendants()


def _run_all(rest: list[str]) -> int:
    for script, environment in zip(rest[::2], rest[1::2], strict=True):
        os.environ.update(json.loads(Path(environment).read_bytes()))
        _set_deadline()
        os.chdir(os.environ[contract.WORK])
        result = Path(os.environ[contract.RESULT])
        code = _run(script)
        if code:
            # whoever failed has no result, even if it was written before the end
            result.unlink(missing_ok=True)
            return code
        if not result.exists():
            print(f"failed: {script} ended without a result.", file=sys.stderr, flush=True)
            return Fault.exit_code
    return 0


def _set_deadline() -> None:
    """A deadline counts from the start of a script; whatever came before it used a part."""
    ends_at_s = os.environ.get(contract.ENDS_AT)
    if ends_at_s:
        os.environ[contract.DEADLINE] = f"{max(float(ends_at_s) - time.monotonic(), 0.0):.3f}"


def _run(script: str) -> int:
    sys.argv = [script]
    # the science that was fingerprinted is that beside the script, wherever quantgrid is installed
    sources = layout.source_root(layout.code_of(Path(script)))
    sys.path[:0] = [str(Path(script).parent), str(sources)]
    try:
        return entry.code_of(lambda: _until_exit(script))
    except Exception:  # noqa: BLE001 - the entry: the error is told, then it ends the job
        import traceback

        traceback.print_exc()
        return Fault.exit_code
    finally:
        del sys.path[:2]


def _until_exit(script: str) -> int:
    """Run a script; its exit code as Python itself would give it.

    An interrupt says nothing here, wherever it meets the script: the runner knows who asked for it,
    and tells it in one sentence.
    """
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        runpy.run_path(script, run_name="__main__")
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr, flush=True)
        return 1
    return 0


def _die_with(runner: int) -> None:
    """A script whose runner was killed would compute for nobody: its deposit has no author.

    What the script starts stays below this process, also when its own parent ends (prctl(2)).
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != runner:  # it died before the kernel was told
        sys.exit(1)


def _end_descendants() -> None:
    """What a script started does not outlive it; children of a killed child become ours."""
    pid = os.getpid()
    own = Path(f"{layout.PROCESSES}/{pid}/task/{pid}/children")
    with suppress(OSError):
        while children := own.read_text().split():
            for child in map(int, children):
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
