"""The working copy of a task in a machine: the bundle by its digest, and what it is told."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from quantgrid import layout
from quantgrid.errors import VolumeRefusal
from quantgrid.hold import MACHINE
from quantgrid.inside.patience import tell
from quantgrid.rental import briefing, bundle
from quantgrid.rental.tasks import TaskOrder
from quantgrid.store import Store

ROOT, VOLUME, ENDS_AT, MARK = "QG_ROOT", "QG_VOLUME", "QG_ENDS_AT", "QG_TASK"
"""What a task sees beside the values of its order; the mark finds all that it started."""

_SYNC_S = 120.0


class Copies:
    """The working copies of one machine.

    Args:
        store: Where bundles and inputs are.
        work: Private folder of this machine.
        mount: Folder of the volume, None without one.
        machine: What it is: platform, lease and nonce.
    """

    def __init__(self, store: Store, work: Path, mount: Path | None, machine: str) -> None:
        self._store, self._work, self._mount, self._machine = store, work, mount, machine

    def ready(self, order: TaskOrder) -> Path:
        """The working copy of a task with its inputs in it.

        Raises:
            DataFault: when bytes are missing or not those of their digest.
            PlatformFault: when the store does not answer.
            VolumeRefusal: when nothing can be kept on the volume.
        """
        self._prove_mount()
        root = layout.copy_folder(self._work, order.bundle)
        if not root.exists():
            self._unpack(order.bundle, root)
        bundle.fetch_files(self._store, root, order.inputs)
        for name in order.outputs:
            (root / name).unlink(missing_ok=True)  # an earlier task's, or a half of this one
        for name in (*order.outputs, order.log):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
        return root

    def _unpack(self, digest: str, root: Path) -> None:
        if digest:
            bundle.unpack(self._store, digest, root)
        else:
            root.mkdir(parents=True)
        if self._mount:
            place = root / layout.WAITING
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(self._mount / layout.MOUNT_WAITING)

    def _prove_mount(self) -> None:
        """A machine without its volume would lose what it computes."""
        if self._mount is None:
            return
        try:
            (self._mount / layout.MOUNT_WAITING).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VolumeRefusal(
                "the volume of this machine takes no files, so nothing was started",
                seen=error.strerror,
                where=self._mount,
                do="Nothing is lost; look whether the machine was given the volume that is meant.",
            ) from error

    def sync(self) -> None:
        """Let what is on the volume be kept: on some platforms the next machine sees only that.

        `sync FOLDER` commits a volume of Modal (guide/volumes); elsewhere it flushes a disk.
        """
        if self._mount is None:
            return
        try:
            subprocess.run(["sync", str(self._mount)], check=True, timeout=_SYNC_S)  # noqa: S607
        except (OSError, subprocess.SubprocessError) as error:
            tell(f"the volume was not synced: {error}")

    def environment(
        self, order: TaskOrder, root: Path, mark: str, ends_at_s: float
    ) -> dict[str, str]:
        """What a task sees.

        Args:
            order: The task.
            root: Its working copy.
            mark: Unique for it.
            ends_at_s: When the machine ends, by the wall clock of the machine.
        """
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(briefing.PREFIX)
        }
        interpreter = str(Path(sys.executable).parent)
        own = {
            ROOT: str(root),
            VOLUME: str(self._mount or ""),
            ENDS_AT: f"{ends_at_s:.3f}",
            MARK: mark,
            MACHINE: self._machine,
            "PATH": _first(interpreter, inherited, "PATH"),
            "PYTHONPATH": _first(str(layout.source_root(root)), inherited, "PYTHONPATH"),
        }
        return {**inherited, **dict(order.environment), **own}


def _first(folder: str, variables: Mapping[str, str], name: str) -> str:
    rest = variables.get(name)
    return os.pathsep.join([folder, *([rest] if rest else [])])
