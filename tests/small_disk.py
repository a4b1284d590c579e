"""A disk that is really full: a small file system in memory."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system whose size may be changed."""

    root: Path

    def resize(self, size_kb: int) -> None:
        """Make it larger or smaller; what is there stays."""
        _mount("-o", f"remount,size={size_kb}k", str(self.root))


def _mount(*words: str) -> bool:
    command = ["mount", *words]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 64 KiB, empty; skipped where the machine lets nobody mount one."""
    root = tmp_path / "disk"
    root.mkdir()
    if os.geteuid() or not _mount("-t", "tmpfs", "-o", "size=64k", "none", str(root)):
        pytest.skip("this machine does not let this user mount a file system")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", str(root)], check=True)  # noqa: S607
