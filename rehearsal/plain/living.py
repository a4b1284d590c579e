"""Machines as processes of this machine: started, started again, signalled, and found by a mark.

Each leads a session of its own in a private folder, with a private view of its volume.  All that it
starts carries its id in the environment, and ends with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from rehearsal.plain.state import Machine, State, start_of
from rehearsal.plain.works import Works

MARK = "PLAIN_MACHINE"
_FRESH = "PATH", "LANG", "PYTHONPATH", "HOME"


class Life:
    """Brings the machines of a state to life, and to their end."""

    def __init__(self, state: State, address: str) -> None:
        self.state, self.address, self.works = state, address, Works(state)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def go_on(self) -> None:
        """Whatever is due now, for every machine."""
        now_s = time.time()
        self.works.look()
        for machine in self.state.alive():
            if machine.killed:
                self._end(machine, None)
            elif 0 < machine.lost_s <= now_s:
                self.state.keep(machine, killed=True)
            elif machine.asked_s:
                self._go_on_ending(machine, now_s)
            elif machine.region in self.state.world["regions_down"]:
                self.state.keep(machine, killed=True)
            elif not machine.group:
                self._begin_when_due(machine, now_s)
            elif not self._lives(machine):
                self._returned(machine)

    def _begin_when_due(self, machine: Machine, now_s: float) -> None:
        if now_s >= machine.ready_s and machine.image not in self.state.world["broken_images"]:
            self._begin(machine)

    def _begin(self, machine: Machine) -> None:
        """Start the first process, in a folder that a restart finds empty."""
        disk = self.state.disk(machine.id)
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir(parents=True)
        self._mount(machine, disk)
        with self.state.log(machine.id).open("ab") as log:
            child = subprocess.Popen(
                machine.words,
                cwd=disk,
                env=self._environment(machine, disk),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._children[machine.id] = child
        facts = {"group": child.pid, "group_start": start_of(child.pid), "started_s": time.time()}
        self.state.keep(machine, starts=machine.starts + 1, **facts)

    def _environment(self, machine: Machine, disk: Path) -> dict[str, str]:
        """What an image has, what was ordered, what the account keeps, and its own key."""
        image = {name: os.environ[name] for name in _FRESH if name in os.environ}
        kept = self.state.world["secrets"]
        own = {MARK: machine.id, "PLAIN_URL": self.address, "PLAIN_TOKEN": machine.token}
        secrets = {name: kept[name] for name in machine.secrets if name in kept}
        shell = self.works.environment(machine, image["PATH"])
        return image | {"HOME": str(disk)} | shell | machine.environment | secrets | own

    def _mount(self, machine: Machine, disk: Path) -> None:
        if not machine.volume:
            return
        facts, view = self.state.world["volumes"][machine.volume], disk / machine.mount
        source = self.state.volume_folder(machine.volume)
        if not facts["size_bytes"]:
            view.symlink_to("/proc")  # statfs says: no room at all
        elif facts.get("view") == "frozen":
            shutil.copytree(source, view, symlinks=True)
        else:
            view.symlink_to(source)

    def _commit(self, machine: Machine) -> None:
        """What a frozen view holds at its end is the volume's from now on; the last one wins."""
        view = self.state.disk(machine.id) / machine.mount
        if machine.volume and view.is_dir() and not view.is_symlink():
            target = self.state.volume_folder(machine.volume)
            shutil.copytree(view, target, symlinks=True, dirs_exist_ok=True)

    def _returned(self, machine: Machine) -> None:
        """The first process is gone: a container starts it again, or the machine has ended."""
        child = self._children.pop(machine.id, None)
        code = child.returncode if child else None
        kill_all(machine)
        if self.state.world["restarts"]:
            self._begin(self.state.keep(machine, exit_code=code))
        else:
            self._end(machine, code)

    def _go_on_ending(self, machine: Machine, now_s: float) -> None:
        grace_s = self.state.world["limits"]["grace_s"] / self.state.world["factor"]
        if not machine.group or not self._lives(machine):
            self._end(machine, 143)
        elif now_s - machine.asked_s >= grace_s:
            self._end(machine, 137)

    def ask(self, machine: Machine) -> None:
        """Tell the first process that the machine ends; what is left after the grace is killed."""
        if not machine.asked_s:
            self.state.keep(machine, asked_s=time.time())
            if machine.group and self._lives(machine):
                with suppress(ProcessLookupError):
                    os.kill(machine.group, signal.SIGTERM)

    def _end(self, machine: Machine, code: int | None) -> None:
        kill_all(machine)
        self.works.look()
        child = self._children.pop(machine.id, None)
        if child:
            child.wait(60)
        self._commit(machine)
        self.state.keep(machine, ended_s=time.time(), exit_code=code)

    def _lives(self, machine: Machine) -> bool:
        child = self._children.get(machine.id)
        if child:
            return child.poll() is None
        return start_of(machine.group) == machine.group_start  # adopted after a crash


def kill_all(machine: Machine) -> None:
    """SIGKILL for all that carries the mark of a machine, until nothing does."""
    mark = f"{MARK}={machine.id}\0".encode()
    until_s = time.monotonic() + 10
    while (found := list(_marked(mark))) and time.monotonic() < until_s:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    if found:
        print(f"machine {machine.id} cannot be ended: {found}", file=sys.stderr, flush=True)


def _marked(mark: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid = int(path.name)
            if mark in (path / "environ").read_bytes() and start_of(pid):
                found.append(pid)
    return found
