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
from pathlib import Path

from quantgrid import contract, entry, layout
from quantgrid.errors import Fault

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run scripts; the first exit code that is not 0 ends the job.

    Args:
        arguments: Process id of the runner, then alternating script and path of the JSON file with
            its contract variables.
    """
    runner, *rest = arguments
    _die_with(int(runner))
    begin_s = time.monotonic()
    for script, environment in zip(rest[::2], rest[1::2], strict=True):
        os.environ.update(json.loads(Path(environment).read_bytes()))
        _shorten_deadline(time.monotonic() - begin_s)
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


def _shorten_deadline(used_s: float) -> None:
    """A deadline counts from the start of a script; the scripts before it used a part."""
    left_s = os.environ.get(contract.DEADLINE)
    if left_s:
        os.environ[contract.DEADLINE] = f"{max(float(left_s) - used_s, 0.0):.3f}"


def _run(script: str) -> int:
    sys.argv = [script]
    # the science that was fingerprinted is that beside the script, wherever quantgrid is installed
    sources = layout.source_root(layout.code_of(Path(script)))
    sys.path[:0] = [str(Path(script).parent), str(sources)]
    try:
        return entry.code_of(lambda: _until_exit(script))
    except Exception as error:  # noqa: BLE001 - the entry: the error is told, then it ends the job
        import traceback

        traceback.print_exc()
        print(f"failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return Fault.exit_code
    finally:
        del sys.path[:2]


def _until_exit(script: str) -> int:
    """Run a script; its exit code as Python itself would give it."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr, flush=True)
        return 1
    return 0


def _die_with(runner: int) -> None:
    """A script whose runner was killed would compute for nobody: its deposit has no author."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != runner:  # it died before the kernel was told
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
