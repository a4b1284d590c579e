"""Pods as real processes: their own session, disk and view of each volume, restarted in place.

The first process is started again whenever it ends, as the platform does it, and with it everything
that it left behind ends.  A process belongs to a pod when RUNPOD_POD_ID in its environment says so.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rehearsal.runpod import views
from rehearsal.runpod.clock import moment
from rehearsal.runpod.state import State

_MARK = "RUNPOD_POD_ID"


class Containers:
    """The machines below the API.

    Args:
        state: What the platform knows.
        url: Its own address, as the pods see it.
    """

    def __init__(self, state: State, url: str) -> None:
        self.state, self.url = state, url
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._doomed: dict[str, float] = {}
        """Pods that got SIGTERM, and when SIGKILL follows, by a watch that never goes back."""

    # -- their lives -------------------------------------------------------------------------------

    def live(self, pod: dict[str, Any]) -> None:
        """What happened to a pod since the last time."""
        now_s, options = self.state.clock.now_s(), self.state.options
        status, since_s = pod["status"], pod["since_s"]
        if status == "PROVISIONING" and now_s >= since_s + options["boot_s"]:
            self._become(pod, "STARTING")
        elif status == "STARTING" and now_s >= since_s + options["pull_s"]:
            self._pull(pod)
        elif status == "RUNNING" and pod["pid"] and not self._is_alive(pod):
            self.end(pod["id"], signal.SIGKILL)
            self.push(pod)
            pod.update(pid=0, restart_s=now_s + options["restart_s"])
            self._say(pod, "container ended; it is started again")
        elif status == "RUNNING" and not pod["pid"] and now_s >= pod["restart_s"]:
            self._start(pod)

    def stop(self, pod: dict[str, Any], status: str) -> None:
        """End its processes, and leave it in a status."""
        self.end(pod["id"], signal.SIGTERM)
        wait_s = self.state.options["grace_s"] / self.state.clock.factor
        self._doomed[pod["id"]] = time.monotonic() + max(wait_s, 0.05)
        self._become(pod, status)
        pod.update(pid=0)

    def lose(self, pod: dict[str, Any], status: str) -> None:
        """Its host is gone: no signal, no time."""
        self.end(pod["id"], signal.SIGKILL)
        self._become(pod, status)
        pod.update(pid=0)

    def reap(self) -> None:
        """Send what is due to those that were asked to end, and collect the dead."""
        for pod, due_s in list(self._doomed.items()):
            if time.monotonic() >= due_s:
                self.end(pod, signal.SIGKILL)
                del self._doomed[pod]
        for pod, child in list(self._children.items()):
            if child.poll() is not None and self.state["pods"][pod]["pid"] != child.pid:
                del self._children[pod]

    def end(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to everything that runs in a pod."""
        for pid in processes_of(pod):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def push(self, pod: dict[str, Any]) -> None:
        """Let the volume have what was written to a view of it that is not the volume itself."""
        place = self.state.pod_folder(pod["id"]) / "network"
        for each in _network(pod):
            views.push(place, self.state.volume_folder(each["volumeId"]))

    def _become(self, pod: dict[str, Any], status: str) -> None:
        pod.update(status=status, since_s=self.state.clock.now_s())
        self._say(pod, status.lower())

    def _is_alive(self, pod: dict[str, Any]) -> bool:
        child = self._children.get(pod["id"])
        if child and child.pid == pod["pid"]:
            return child.poll() is None
        return birth(pod["pid"]) == int(pod["birth"])  # a child of the double before its crash

    # -- their start -------------------------------------------------------------------------------

    def _pull(self, pod: dict[str, Any]) -> None:
        if pod["body"]["image"] not in self.state["images"]:
            pod["since_s"] = self.state.clock.now_s()  # it tries for ever, and is paid for
            self._say(pod, f"error pulling image: {pod['body']['image']}: manifest unknown")
            return
        self._become(pod, "RUNNING")
        self._start(pod)

    def _start(self, pod: dict[str, Any]) -> None:
        folder = self.state.pod_folder(pod["id"])
        root = folder / "root"
        self.end(pod["id"], signal.SIGKILL)
        self._doomed.pop(pod["id"], None)
        shutil.rmtree(root, ignore_errors=True)  # what is on no mount ends with the container
        root.mkdir(parents=True)
        places = self._mounts(pod, folder)
        environment = {k: _inside(v, places) for k, v in self._environment(pod, root).items()}
        words = [_inside(word, places) for word in command(pod["body"])]
        with (folder / "container.log").open("ab") as log:
            try:
                child = subprocess.Popen(
                    words, cwd=root, env=environment, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                )  # fmt: skip
            except OSError as error:
                self._say(pod, f"cannot start: {error}")
                pod.update(pid=0, restart_s=self.state.clock.now_s() + 1)
                return
        self._children[pod["id"]] = child
        pod.update(pid=child.pid, birth=birth(child.pid), started_s=self.state.clock.now_s())
        pod["starts"] += 1

    def _environment(self, pod: dict[str, Any], root: Path) -> dict[str, str]:
        secrets = self.state["accounts"][pod["account"]]["secrets"]
        asked = {k: _filled(v, secrets) for k, v in pod["body"].get("env", {}).items()}
        image = self.state["images"][pod["body"]["image"]]
        system = {"HOME": str(root), "TMPDIR": str(root), "LANG": "C.UTF-8"}
        return {
            **system,
            **image,
            **asked,
            _MARK: pod["id"],
            "RUNPOD_API_KEY": pod["key"],  # shadows one that was asked for
            "RUNPOD_DC_ID": pod["place"],
            "RUNPOD_GPU_COUNT": str(pod["num_gpus"]),
            "RUNPOD_VOLUME_ID": next((v["volumeId"] for v in _network(pod)), ""),
        }

    def _mounts(self, pod: dict[str, Any], folder: Path) -> dict[str, Path]:
        """From each mount path to the folder of this pod that stands for it."""
        places = {}
        for each in _network(pod):
            volume, place = self.state["volumes"][each["volumeId"]], folder / "network"
            source = self.state.volume_folder(volume["id"])
            source.mkdir(parents=True, exist_ok=True)
            places[each["path"]] = views.make(source, place, is_frozen=volume["is_frozen"])
        if kept := pod["mounts"].get("persistent"):
            places[kept["path"]] = folder / "persistent"
            places[kept["path"]].mkdir(exist_ok=True)
        return places

    def _say(self, pod: dict[str, Any], line: str) -> None:
        folder = self.state.pod_folder(pod["id"])
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "system.log").open("a") as log:
            log.write(f"{moment(self.state.clock.now_s())} {line}\n")


def command(body: dict[str, Any]) -> list[str]:
    """The first process: `entrypoint` and `cmd`, or both as JSON in `args`, or words in `args`."""
    args = body.get("args", "")
    if args.startswith("{"):
        body = json.loads(args)
    elif args:
        return str(args).split()
    words: list[str] = [*body.get("entrypoint", ()), *body.get("cmd", ())]
    return words or ["sleep", "infinity"]


def processes_of(pod: str) -> Iterator[int]:
    """Everything of this machine that runs in a pod."""
    mark = f"{_MARK}={pod}".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def birth(pid: int) -> int:
    """When a process began, in the kernel's ticks; 0 when there is none or it is dead (proc(5))."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    return 0


def _network(pod: dict[str, Any]) -> list[dict[str, str]]:
    return pod["mounts"].get("network", [])  # type: ignore[no-any-return]


def _inside(text: str, places: dict[str, Path]) -> str:
    """A text with each mount path replaced, as the pod's own root would let it resolve."""
    for path, place in places.items():
        text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", str(place), text)
    return text


def _filled(text: str, secrets: dict[str, str]) -> str:
    """A value with the platform's secrets in place."""
    return re.sub(
        r"\{\{ *RUNPOD_SECRET_(\w+) *\}\}", lambda found: secrets.get(found[1], found[0]), text
    )
