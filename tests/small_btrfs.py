"""A btrfs of its own in a file, whose subvolumes can be frozen as snapshots."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_SIZE_MB = 128
"""Less than 109 MiB mkfs.btrfs refuses."""


@dataclass(frozen=True)
class Btrfs:
    """A mounted btrfs."""

    root: Path

    def subvolume(self, name: str) -> Path:
        """A new subvolume, which is written to."""
        _btrfs("subvolume", "create", str(self.root / name))
        return self.root / name

    def snapshot(self, source: Path, name: str) -> Path:
        """What a subvolume holds now, read-only from then on; one of that name is replaced."""
        target = self.root / name
        if target.exists():
            _btrfs("subvolume", "delete", str(target))
        _btrfs("subvolume", "snapshot", "-r", str(source), str(target))
        return target


def _btrfs(*words: str) -> None:
    subprocess.run(["btrfs", *words], check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def small_btrfs(tmp_path: Path) -> Iterator[Btrfs]:
    """A file system of its own; skipped with the reason where the machine has none."""
    missing = [name for name in ("mkfs.btrfs", "btrfs") if shutil.which(name) is None]
    if missing or os.geteuid() or "btrfs" not in Path("/proc/filesystems").read_text().split():
        pytest.skip(f"no btrfs here: {', '.join(missing) or 'no right to mount it, or no kernel'}")
    image, root = tmp_path / "image", tmp_path / "btrfs"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(_SIZE_MB << 20)
    for command in (["mkfs.btrfs", "-q", str(image)], ["mount", "-o", "loop", str(image), root]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no btrfs here: {done.stderr.strip()}")
    try:
        yield Btrfs(root)
    finally:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(["umount", root], check=True, timeout=60)  # noqa: S607
