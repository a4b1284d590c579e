"""Sandboxes as real processes: they wait for capacity, run, are preempted, and end."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from rehearsal.modal import keeper, views
from rehearsal.modal.state import Box, State

CAP_S = 86_400
"""modal.com/docs/guide/sandbox: a sandbox lives for 24 hours at most; looked at on 2026-11-30."""
GRACE_S = 30
"""Between the interrupt and the kill of a preemption (SDK 1.6, `simulate_preemption`)."""
COMMIT_S = 5
"""Background commits come "every few seconds" (modal.com/docs/guide/volumes)."""
_LOOK_S = 0.02
_HERE = Path(__file__).parent


class Boxes:
    """The sandboxes of a double."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.over: dict[str, asyncio.Event] = {}
        self._seen: dict[tuple[str, str], views.Seen] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def go_on(self) -> None:
        """After a restart of the double: follow what still runs, start what still waits."""
        for box in self.state.boxes.values():
            self.over[box.id] = asyncio.Event()
            if box.is_over:
                self.over[box.id].set()
            else:
                self._follow(box)

    def add(self, box: Box) -> None:
        """Take a sandbox in; it starts as soon as there is capacity."""
        self.state.boxes[box.id] = box
        self.over[box.id] = asyncio.Event()
        self.state.keep(box)
        self._follow(box)

    def _follow(self, box: Box) -> None:
        task = asyncio.get_running_loop().create_task(self._live(box))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, box: Box) -> None:
        if not box.started_s:
            while len(self.state.running(box.device)) >= self.state.capacity(box.device):
                await asyncio.sleep(_LOOK_S)
                if box.is_over:
                    return
            await self._start(box)
        await self._watch(box)

    # -- life -------------------------------------------------------------------------------------

    async def _start(self, box: Box) -> None:
        home = self.state.home(box)
        (home / "asked").mkdir()
        for each in box.mounts:
            view = self._view(box, each.volume)
            view.parent.mkdir(exist_ok=True)
            views.mount(self.state.committed(each.volume), view, read_only=each.read_only)
            self._seen[box.id, each.volume] = views.look(view)
        box.started_s = time.time()
        seconds = box.timeout_s / self.state.factor
        words = [self._there(box, word) for word in box.words]
        command = [sys.executable, "-I", "-S", keeper.__file__, str(home), str(seconds), *words]
        with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=home, env=self._environment(box), stdout=out, stderr=err,
                stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        box.keeper = process.pid
        self.state.keep(box)

    def _environment(self, box: Box) -> dict[str, str]:
        """What the first process sees: nothing of ours but the way to Python and `sync`."""
        home = self.state.home(box)
        programs = home / "programs"
        programs.mkdir()
        shutil.copy(_HERE / "sync.sh", programs / "sync")
        (programs / "sync").chmod(0o755)
        return {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "QG_REHEARSAL_HOME": str(home),
            "MODAL_SANDBOX_ID": box.id,
            "MODAL_TASK_ID": box.task,
            "MODAL_IS_REMOTE": "1",
            **{name: self._there(box, value) for name, value in box.environment.items()},
            **{k: v for name in box.secrets for k, v in self.state.secrets().get(name, {}).items()},
        }

    def _there(self, box: Box, text: str) -> str:
        """A word with each mount path replaced by the view's, for mounting takes privileges."""
        for each in box.mounts:
            whole = rf"(?<![\w./-]){re.escape(each.path.rstrip('/'))}(?![\w.-])"
            place = self._view(box, each.volume) / each.part.strip("/")
            text = re.sub(whole, lambda _, to=str(place): to, text)  # type: ignore[misc]
        return text

    def _view(self, box: Box, volume: str) -> Path:
        return self.state.home(box) / "views" / volume

    async def _watch(self, box: Box) -> None:
        """Until its keeper wrote down the end, commit now and then and at once when asked."""
        end, due_s = self.state.home(box) / "end", time.monotonic()
        while not end.exists() and _lives(box.keeper) and not box.is_over:
            await asyncio.sleep(_LOOK_S)
            asked = list((self.state.home(box) / "asked").iterdir())
            if asked or time.monotonic() >= due_s:
                self.commit(box)
                due_s = time.monotonic() + COMMIT_S / self.state.factor + _LOOK_S
            for path in asked:
                path.unlink()
        if not box.is_over:
            self._end(box, *self._how(end))

    def _how(self, end: Path) -> tuple[str, int]:
        if not end.exists():  # the host is gone, or somebody killed the container
            return "INTERNAL_FAILURE", 0
        said = json.loads(end.read_text())
        if "timeout" in said:
            return "TIMEOUT", 0
        return ("SUCCESS" if said["code"] == 0 else "FAILURE"), said["code"]

    def commit(self, box: Box) -> None:
        """Push what the sandbox wrote; never out of a read-only view."""
        for each in box.mounts:
            view, key = self._view(box, each.volume), (box.id, each.volume)
            if view.exists() and not each.read_only:
                seen = self._seen.get(key, {})  # after a restart all counts as changed
                self._seen[key] = views.commit(view, seen, self.state.committed(each.volume))

    def _end(self, box: Box, status: str, code: int) -> None:
        self.commit(box)
        box.status, box.code, box.ended_s = status, code, time.time()
        self.state.keep(box)
        self.over[box.id].set()

    # -- what is done to them ---------------------------------------------------------------------

    def stop(self, box: Box, status: str = "TERMINATED", code: int = 0) -> None:
        """End it, with everything that it started; idempotent."""
        if box.is_over:
            return
        self.kill(box)
        self._end(box, status, code)

    def kill(self, box: Box) -> None:
        """Take all its processes away, and say nothing: as the loss of its host."""
        if box.keeper and _lives(box.keeper):
            below = keeper.descendants(box.keeper)
            with suppress(ProcessLookupError):
                os.kill(box.keeper, signal.SIGKILL)
            for process in below:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    async def preempt(self, box: Box, code: int = 137) -> None:
        """An interrupt, the grace, and the kill; nobody restarts a sandbox."""
        first = self.state.home(box) / "first"
        if first.exists():
            with suppress(ProcessLookupError):
                os.kill(int(first.read_text()), signal.SIGINT)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over[box.id].wait(), GRACE_S / self.state.factor)
        self.stop(box, "FAILURE", code)

    def reload(self, box: Box) -> list[str]:
        """See all volumes afresh; what is open below them, in which case nothing was done."""
        mounts = [(each, self._view(box, each.volume)) for each in box.mounts]
        processes = keeper.descendants(box.keeper)
        found = [path for _, view in mounts for path in views.open_below(view, processes)]
        if not found:
            self.commit(box)
            for each, view in mounts:
                views.reload(view, self.state.committed(each.volume))
                self._seen[box.id, each.volume] = views.look(view)
        return found

    def said(self, box: Box, source: str) -> bytes:
        """What it wrote to stdout or stderr up to now."""
        path = self.state.home(box) / source
        return path.read_bytes() if path.exists() else b""


def _lives(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
