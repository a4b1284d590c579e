"""A job that the kernel killed because it took more memory than it may.

Incident: a job of a shared host ended with 137 and without a word.  It looked like a preemption, so
it was started again and again, and each time the kernel killed it at the same tensor.

Guard: `quantgrid.oom.find_count` asks the kernel, which counts such kills per group of processes;
`quantgrid.diagnosis.diagnose` tells them from a kill that somebody meant.
"""

import json
import subprocess
from pathlib import Path

from core_parts import BOUND_S, CELL, Desk, job_of, stage
from quantgrid import failures, layout, links
from small_memory import LIMIT_MB, SmallMemory, small_memory

__all__ = ["small_memory"]

WEIGHTS = stage("quantise", "weights")
GREEDY = f"held = []\nfor _ in range({4 * LIMIT_MB}):\n    held.append(b'x' * (1 << 20))\n"
TOLD = "the kernel killed it for memory (SIGKILL, 1 oom_kill)"


def test_kill_for_memory_is_told_as_such_when_the_kernel_did_it(
    small_memory: SmallMemory, tmp_path: Path
) -> None:
    """A real kill by a cgroup: host memory is the first thing said, and no link counts for it."""
    desk = Desk.lay(tmp_path, quantise=GREEDY)
    done = subprocess.run(
        small_memory.inside(desk.command(job_of(WEIGHTS))),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

    first = done.stderr.splitlines()[0]
    assert done.returncode == 71, done.stderr
    assert first.startswith(f"failed: {CELL}: {TOLD}; seen host memory"), first
    failure = failures.find(tmp_path, CELL, "quantise", WEIGHTS.fingerprint)
    assert failure is not None
    assert (failure["kind"], failure["class"]) == ("host memory", "platform")
    assert failure["evidence"]["oom_kills"] == 1
    state = layout.state_folder(tmp_path / "v", CELL, "quantise", WEIGHTS.fingerprint)
    ends = [link["end"] for link in json.loads(layout.links_file(state).read_bytes())]
    assert ends == [links.FAILED]
