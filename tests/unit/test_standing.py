"""Whoever may read a working copy may look how its controller stands."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import BOUND_S, python_path
from quantgrid import layout

_STRANGER = """
import os, sys
from pathlib import Path
from quantgrid import standing
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
print(standing.look(Path()).state)
"""


@pytest.mark.parametrize("has_gate", [True, False])
@pytest.mark.parametrize("is_held", [True, False])
def test_standing_is_told_when_somebody_may_only_read(
    tmp_path: Path, *, is_held: bool, has_gate: bool
) -> None:
    """A colleague in another account: the lock is looked at and nothing is written."""
    lock, gate = tmp_path / layout.CONTROLLER_LOCK, tmp_path / layout.CONTROLLER_GATE
    lock.parent.mkdir()
    lock.write_text(json.dumps({"nobody": "knows this"}))
    for path in [lock, gate] if has_gate else [lock]:
        path.touch()
        path.chmod(0o444)
    lock.parent.chmod(0o555)
    tmp_path.chmod(0o755)
    with lock.open() as held:
        if is_held:
            fcntl.flock(held, fcntl.LOCK_EX)
        told = subprocess.run(
            [sys.executable, "-c", _STRANGER],
            cwd=tmp_path,
            env={**os.environ, **python_path()},
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
    lock.parent.chmod(0o755)

    assert (told.stderr, told.stdout) == ("", "elsewhere\n" if is_held else "never\n")
