"""Whether a volume can be trusted to keep what a day of computing writes to it.

A path that can be written proves nothing: a container without its volume has one as well, in
memory or in a layer that ends with it.  What is asked for here is capacity, a mount of its own,
room, and bytes that come back after they were synced.
"""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from quantgrid import layout, volume
from quantgrid.errors import PlatformFault, VolumeRefusal
from quantgrid.reload import NONE

_FLEETING = frozenset({"overlay", "tmpfs", "ramfs", "aufs", "rootfs"})
"""File systems that end with the container or with the power."""

_MOUNTS = "/proc/self/mountinfo"
_PROBE = b"quantgrid writes, syncs and reads this back\n"


class Platform(Protocol):
    """What a platform's file says of its machines and its volume."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def device(self) -> str:
        """The device of a cell."""

    @property
    def durable(self) -> bool:
        """Whether it must outlive container and power."""

    @property
    def volume_id(self) -> str | None:
        """The identity that is meant."""

    @property
    def reload(self) -> str:
        """How a view of it is refreshed."""

    def limits(self, *, waits: bool = False) -> list[str]:
        """Options that say what it allows."""


class Mount(NamedTuple):
    """What lies under a folder.

    Args:
        point: Where it is mounted.
        kind: Its file system, as the kernel names it; empty where nobody tells.
        source: What is mounted.
        size_bytes: Its capacity.
        free_bytes: What an ordinary user may still write.
        options: How it is mounted, separated by commas.
    """

    point: str
    kind: str
    source: str
    size_bytes: int
    free_bytes: int
    options: str = ""

    @property
    def is_fleeting(self) -> bool:
        """Whether it ends with the container or with the power."""
        return self.kind in _FLEETING

    def __str__(self) -> str:
        return f"{self.kind or 'unknown file system'} at {self.point}"


def look(folder: Path) -> Mount:
    """The mount that a folder lies on, or would lie on if it does not exist yet."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    sizes = os.statvfs(there)
    point, kind, source, options = _find_mount(there.resolve())
    unit = sizes.f_frsize
    return Mount(point, kind, source, unit * sizes.f_blocks, unit * sizes.f_bavail, options)


def _find_mount(folder: Path) -> tuple[str, str, str, str]:
    """Point, file system, source, options (proc(5), mountinfo); of mounts at one point the last."""
    best = ("/", "", "", "")
    with suppress(OSError):
        for line in Path(_MOUNTS).read_text().splitlines():
            left, _, right = line.partition(" - ")
            point = left.split()[4].encode().decode("unicode_escape")
            if folder.is_relative_to(point) and len(point) >= len(best[0]):
                kind, source, options = right.split()[:3]
                best = point, kind, source, f"{left.split()[5]},{options}"
    return best


def prove(folder: Path, *, is_durable: bool, need_bytes: int = 0, pin: str | None = None) -> Mount:
    """Refuse a volume that would lose what is written to it.

    Args:
        folder: Root of the volume.
        is_durable: Whether the platform promises a volume that outlives container and power.
        need_bytes: What the plan will still write.
        pin: Identity that the platform's file names, if it does.

    Returns:
        What lies under the folder.

    Raises:
        VolumeRefusal: for no capacity, a file system that is fleeting, no mount of its own, too
            little room, or another identity than the pinned one.
        PlatformFault: when bytes do not come back.
    """
    mount = look(folder)
    _refuse_unfit(folder, mount, is_durable=is_durable, need_bytes=need_bytes)
    if pin is not None:
        refuse_twin(folder, pin)
    _write_and_read(folder)
    return mount


def prove_for(platform: Platform, folder: Path, need_bytes: int) -> Mount:
    """Refuse a volume that a platform's file does not allow; see `prove`."""
    durable, pin = platform.durable, platform.volume_id
    return prove(folder, is_durable=durable, need_bytes=need_bytes, pin=pin)


def machine(platform: Platform, *, waits: bool = False) -> str:
    """What `quantgrid run` must know of a platform, so that each job refuses its own view."""
    words = ["--platform", platform.name, "--device", platform.device]
    words += ["--durable"] if platform.durable else []
    words += ["--volume-id", platform.volume_id] if platform.volume_id else []
    words += ["--reload", platform.reload] if platform.reload != NONE else []
    return shlex.join([*words, *platform.limits(waits=waits)])


def _refuse_unfit(folder: Path, mount: Mount, *, is_durable: bool, need_bytes: int) -> None:
    expected, seen = "", ""
    if mount.size_bytes == 0:
        expected, seen = "a capacity", f"0 bytes, {mount}"
    elif is_durable and mount.is_fleeting:
        expected, seen = "a mount that outlives this container and its power", str(mount)
    elif is_durable and mount.point == "/":
        expected, seen = "a mount of its own", f"{mount}, which is the system's"
    elif mount.free_bytes < need_bytes:
        expected, seen = f"room for {need_bytes:,} bytes", f"{mount.free_bytes:,} bytes free"
    if expected:
        raise VolumeRefusal(
            "this volume would not keep the work, so nothing was started",
            expected=expected,
            seen=seen,
            where=folder,
            do="Mount the volume there, or name another folder with `volume` in the configuration; "
            "`quantgrid doctor` shows what is mounted.",
        )


def refuse_twin(folder: Path, pin: str) -> None:
    """Refuse a volume that is not the pinned one.

    Raises:
        VolumeRefusal: naming both identities.
    """
    seen = volume.identify(folder)
    if seen.id != pin:
        raise VolumeRefusal(
            "another volume than the one that the platform's file pins",
            expected=f"volume {pin}",
            seen=f"volume {seen.id} of workspace {seen.workspace}, created {seen.created}",
            where=folder,
            do="Nothing is lost, you look at another volume: mount the expected one, or change "
            "`volume_id` in the file of the platform if this one is meant.",
        )


def _write_and_read(folder: Path) -> None:
    """Write, sync, close, open again and compare."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / layout.volume_probe(f"{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with path.open("xb") as file:
            file.write(_PROBE)
            file.flush()
            os.fsync(file.fileno())
        seen = path.read_bytes()
    except OSError as error:
        raise _unfit(folder, str(error.strerror)) from error
    finally:
        with suppress(OSError):
            path.unlink()
    if seen != _PROBE:
        raise _unfit(folder, f"{len(seen)} other bytes")


def _unfit(folder: Path, seen: str) -> PlatformFault:
    return PlatformFault(
        "the volume does not give back what was written to it",
        expected=f"{len(_PROBE)} bytes after fsync",
        seen=seen,
        where=folder,
        do="Nothing was started; mend the mount, or name another volume.",
    )
