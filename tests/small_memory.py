"""A group of processes that the kernel really lets have little memory."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_MB = 96
_CONTROLLERS = "cgroup.controllers"
_MOUNTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
"""Where cgroups of version 2, and those of version 1 that count memory, are mounted."""

_ENTER = "import os, sys; open(sys.argv[1], 'w').write('0'); os.execv(sys.argv[2], sys.argv[2:])"


class SmallMemory:
    """A cgroup with a limit; what is started in it is killed by the kernel when it takes more."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def inside(self, command: list[str]) -> list[str]:
        """A command that enters the group and becomes another one."""
        return [sys.executable, "-c", _ENTER, str(self._root / "cgroup.procs"), *command]


@pytest.fixture
def small_memory() -> Iterator[SmallMemory]:
    """A group of its own; skipped where the machine lets nobody make one."""
    mount = next((each for each in reversed(_MOUNTS) if each.is_dir()), _MOUNTS[0])
    is_newer = (mount / _CONTROLLERS).exists()
    root = mount / f"quantgrid-{os.getpid()}-{os.urandom(4).hex()}"
    limits = ("memory.max", "memory.swap.max") if is_newer else ("memory.limit_in_bytes",)
    size = str(LIMIT_MB << 20)
    try:
        root.mkdir()
        for number, name in enumerate(limits):
            (root / name).write_text("0" if number else size)
    except OSError as error:
        if root.is_dir():
            root.rmdir()
        pytest.skip(f"this machine does not let this user limit memory: {error}")
    try:
        yield SmallMemory(root)
    finally:
        root.rmdir()
