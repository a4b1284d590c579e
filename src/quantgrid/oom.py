"""How many processes the kernel killed for memory, as far as this process can see.

A cgroup counts its own (`memory.events` of cgroup v2, `memory.oom_control` of v1, see the kernel's
admin guide); `/proc/vmstat` counts those of the whole machine.
"""

from pathlib import Path

SYSTEM = "/"
OWN_GROUPS = "proc/self/cgroup"
VMSTAT = "proc/vmstat"
GROUP_EVENTS = "sys/fs/cgroup/{group}/memory.events"
GROUP_OOM_CONTROL = "sys/fs/cgroup/memory/{group}/memory.oom_control"
"""Where a cgroup of version 2, and one of version 1, counts events of its memory."""

_COUNT = "oom_kill"


def find_count(root: Path = Path(SYSTEM)) -> int:
    """Processes killed for memory so far; 0 where nothing counts them.

    Args:
        root: The system's root folder.
    """
    for path in [*_of_groups(root), root / VMSTAT]:
        count = _find_count(path)
        if count is not None:
            return count
    return 0


def _of_groups(root: Path) -> list[Path]:
    """The counting files of the cgroups of this process, those seen inside a container first."""
    paths = []
    for line in _lines(root / OWN_GROUPS):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            paths += [root / GROUP_EVENTS.format(group=each) for each in _seen_as(group)]
        elif "memory" in controllers.split(","):
            paths += [root / GROUP_OOM_CONTROL.format(group=each) for each in _seen_as(group)]
    return paths


def _seen_as(group: str) -> list[str]:
    """The names that a cgroup may have below the mount that this container sees."""
    parts = group.strip("/").split("/")
    return ["/".join(parts[start:]) for start in range(len(parts) + 1)]


def _find_count(path: Path) -> int | None:
    for line in _lines(path):
        name, _, value = line.partition(" ")
        if name == _COUNT and value.strip().isdigit():
            return int(value)
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
