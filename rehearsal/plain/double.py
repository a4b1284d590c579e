"""The platform as a test has it: started, changed, crashed, started again, and gone at the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rehearsal import meters
from rehearsal.plain import client
from rehearsal.plain.living import kill_all
from rehearsal.plain.server import WORLD
from rehearsal.plain.state import State

_BASE = Path(__file__).parents[2]
_START_S = 120.0
_ACCOUNT = "lab/main"


class Double:
    """A platform that runs as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._begin_s = time.monotonic()

    @property
    def address(self) -> str:
        """Where it listens; stays the same after a crash."""
        return f"127.0.0.1:{(self.folder / 'port').read_text()}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        port = self.folder / "port"
        words = ["--port", port.read_text()] if port.exists() else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rehearsal.plain", str(self.folder), *words],
            env=os.environ | {"PYTHONPATH": _path()},
            start_new_session=True,
        )
        until_s = time.monotonic() + _START_S
        while True:
            with suppress(OSError, client.NoReply):
                self.ask("machines")
                return meters.add(self, self._measured)
            if time.monotonic() > until_s or self._process.poll() is not None:
                raise RuntimeError("the platform did not start")
            time.sleep(0.02)

    def crash(self) -> None:
        """SIGKILL; the machines live on."""
        assert self._process  # noqa: S101 - a test's mistake
        self._process.kill()
        self._process.wait(120)

    def close(self) -> None:
        """End it with all its machines; nothing is left running."""
        meters.remove(self)
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(120)
        for machine in State.read(self.folder).alive():
            kill_all(machine)

    def ask(self, operation: str, /, **arguments: Any) -> Any:
        """Something that only a test may ask; see `server.Server.world_change` and the others."""
        reply = client.call(self.address, WORLD, operation, 60.0, **arguments)
        return reply["ok"]

    def change(self, **changes: Any) -> None:
        """The platform is another one from now on; see `state.DEFAULT`."""
        self.ask("change", changes=changes)

    def fault(self, operation: str, nth: int, kind: str, seconds: float = 0.0) -> None:
        """Let the nth next call of an operation meet a fault of `faults.KINDS`."""
        self.ask("fault", operation=operation, nth=nth, kind=kind, seconds=seconds)

    def machines(self) -> list[dict[str, Any]]:
        """All machines that ever were, the oldest first."""
        found: list[dict[str, Any]] = self.ask("machines")
        return found

    def billing(self) -> list[str]:
        """Ids of those that cost something now."""
        return [each["id"] for each in self.machines() if not each["ended_s"]]

    def _measured(self) -> meters.Reading:
        state = State.read(self.folder)  # from its disk: it may have crashed
        scaled_s = (time.monotonic() - self._begin_s) * float(state.world["factor"])
        usd = sum(each.cost_microusd(time.time()) for each in state.machines.values()) / 1e6
        return meters.Reading(scaled_s, usd, len(list(state.alive())))

    def bill_usd(self, account: str = _ACCOUNT) -> float:
        """What an account owes."""
        return float(self.ask("bill", account=account))

    def perfect(self, width: int, *, alike: bool = False) -> dict[str, float]:
        """What all of it would have cost a perfect controller; see `oracle.perfect`."""
        return dict(self.ask("perfect", width=width, alike=alike))

    def spent(self) -> list[dict[str, float]]:
        """Where the seconds of each machine went, the oldest first; see `oracle.spent`."""
        return list(self.ask("spent"))

    def take(self, machine: str) -> None:
        """The host of a machine is gone."""
        self.ask("take", machine=machine)

    def wait(self, is_so: Any, timeout_s: float = 180.0) -> None:
        """Wait until something is so of the list of machines, and fail when it never is."""
        until_s = time.monotonic() + timeout_s
        while not is_so(self.machines()):
            if time.monotonic() > until_s:
                raise AssertionError(f"it never came to be so: {self.machines()}")
            time.sleep(0.05)


def _path() -> str:
    told = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(_BASE), *([told] if told else [])])


@contextmanager
def running(folder: Path, **world: Any) -> Iterator[Double]:
    """A platform, for as long as the block runs."""
    State.read(folder).change_world(world)
    double = Double(folder)
    try:
        double.start()
        yield double
    finally:
        double.close()
