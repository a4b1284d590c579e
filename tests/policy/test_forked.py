"""What tests start dies with them."""

import subprocess
import sys
from pathlib import Path

import psutil

BOUND_S = 180.0
_STARTS = """
import os, sys, time
from pathlib import Path
import forked
forked.PRELOADED = ()  # what it imports is not the point here
command, here = [sys.executable, "-m", "sleeper"], Path.cwd()
nothing = os.open(os.devnull, os.O_RDWR)
program = forked.Forked(command, cwd=here, env=os.environ, stdout=nothing, stderr=nothing)
print(program.pid, flush=True)
time.sleep(600)
"""


def test_forked_programs_die_when_their_test_is_killed(root: Path, tmp_path: Path) -> None:
    """SIGKILL for the test process ends its server, and what that has forked."""
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(600)\n")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root / 'tests')!r})\n"]
    command[-1] += _STARTS
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        program = psutil.Process(int(test.stdout.readline()))
        family = [program, *program.parents()[:2]]
        test.kill()

    gone, alive = psutil.wait_procs(family, timeout=BOUND_S)
    for each in alive:
        each.kill()
    assert not alive
    assert len(gone) == 3
