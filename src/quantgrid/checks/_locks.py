"""Whether locks hold: the controller's in the working copy, the producer's on the volume."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from quantgrid import durability, layout, standing
from quantgrid.checks import Finding, Level
from quantgrid.durability import Mount

_SHARED = {
    "nfs": frozenset[str](),
    "nfs4": frozenset[str](),
    "lustre": frozenset({"flock"}),
    "ceph": frozenset[str](),
    "gfs2": frozenset[str](),
    "ocfs2": frozenset[str](),
}
"""File systems that pass flock(2) on to all hosts, with the mount options that they need for it."""

_LOCAL = frozenset({"nolock", "local_lock=flock", "local_lock=all", "localflocks"})
"""Options that keep locks on one host: nfs(5), gfs2(5)."""

_OF_ONE_HOST = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "ramfs"}
)


def find_trouble(folder: Path) -> str | None:
    """Lock a file twice: what is wrong when the second lock is not refused; None when it is."""
    path = folder / layout.volume_probe(f"lock-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with path.open("xb") as first, path.open("rb") as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(BlockingIOError):
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return "two at once have the lock of one file"
    except OSError as error:
        return str(error.strerror)
    finally:
        with suppress(OSError):
            path.unlink()
    return None


def reaches_hosts(mount: Mount) -> bool | None:
    """Whether a lock is seen on every host that mounts this; None where there is one host."""
    if mount.kind in _OF_ONE_HOST:
        return None
    options = set(mount.options.split(","))
    needed = _SHARED.get(mount.kind)
    return needed is not None and needed <= options and not options & _LOCAL


def check(subject: str, folder: Path, *, is_needed: bool) -> Finding:
    """What a folder's locks are worth.

    Args:
        subject: Of the finding.
        folder: Exists.
        is_needed: Whether nothing may start without them.
    """
    trouble, mount = find_trouble(folder), durability.look(folder)
    if trouble:
        level = Level.REFUSE if is_needed else Level.WARN
        do = "Use a file system with flock(2); over NFS look at the option `nolock`."
        return Finding(level, subject, f"no locks under {folder}: {trouble} ({mount})", do)
    reach = reaches_hosts(mount)
    if reach is False:
        return Finding(
            Level.WARN,
            subject,
            f"locks under {folder} are seen on this host only ({mount})",
            "A process on another host is known by its last word alone: a controller counts as "
            f"ended after {standing.SILENCE_S:.0f} s.  Start from one host.",
        )
    seen = "every host" if reach else "a disk of this host"
    return Finding(Level.OK, subject, f"locks hold, on {seen} ({mount})")
