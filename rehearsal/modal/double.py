"""The double from the outside: start it, let it crash, plant faults, read its bill, end it all."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rehearsal import meters
from rehearsal.modal import keeper
from rehearsal.modal.state import read, write

_WITHIN_S = 60.0
_ROOT = Path(__file__).parents[2]


class Double:
    """A running double.

    Args:
        root: Folder for all it knows.
        factor: How much faster than the vendor's its clocks run.
    """

    def __init__(self, root: Path, factor: float = 1.0) -> None:
        self.root, self.factor = root, factor
        self._process: subprocess.Popen[bytes] | None = None
        self._begin_s = time.monotonic()
        root.mkdir(parents=True, exist_ok=True)

    # -- the process ------------------------------------------------------------------------------

    def start(self, port: int = 0) -> None:
        """Start it, or start it again with all that it knew."""
        (self.root / "url").unlink(missing_ok=True)
        command = [sys.executable, "-m", "rehearsal.modal", "--state", str(self.root)]
        command += ["--port", str(port), "--factor", str(self.factor)]
        with (self.root / "double.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log)
        until((self.root / "url").exists, "the double listens", self._said)
        meters.add(self, self._measured)

    def _said(self) -> str:
        return (self.root / "double.log").read_text(errors="replace")[-2000:]

    def crash(self) -> None:
        """Kill it; sandboxes go on."""
        if self._process:
            self._process.kill()
            self._process.wait(_WITHIN_S)

    def restart(self) -> None:
        """Start again at the same address."""
        port = int(self.url.rpartition(":")[2])
        self.crash()
        self.start(port)

    def close(self) -> None:
        """End the double and every process of every sandbox."""
        meters.remove(self)
        self.crash()
        for path in (self.root / "boxes").glob("*/box.json"):
            process = read(path, {}).get("keeper", 0)
            if process and _is_keeper(process, path.parent):
                below = keeper.descendants(process)
                for each in [process, *below]:
                    with suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)

    @property
    def url(self) -> str:
        """Its address."""
        return (self.root / "url").read_text()

    # -- who asks ---------------------------------------------------------------------------------

    def token(self, workspace: str) -> tuple[str, str]:
        """A new token of a workspace: its id and its secret."""
        tokens = read(self.root / "tokens.json", {})
        # the vendor's letters, too short for the vendor's form: secret scanners look for that one
        token, secret = f"ak-{secrets.token_hex(8)}", f"as-{secrets.token_hex(8)}"
        tokens[token] = {"secret": secret, "workspace": workspace}
        write(self.root / "tokens.json", tokens)
        return token, secret

    def environment(self, workspace: str) -> dict[str, str]:
        """Variables that lead the SDK here, as somebody of that workspace."""
        token, secret = self.token(workspace)
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": token,
            "MODAL_TOKEN_SECRET": secret,
            "MODAL_CONFIG_PATH": str(self.root / "no-such.toml"),
        }

    def revoke(self, workspace: str) -> None:
        """Refuse all tokens of a workspace from now on."""
        tokens = read(self.root / "tokens.json", {})
        kept = {token: said for token, said in tokens.items() if said["workspace"] != workspace}
        write(self.root / "tokens.json", kept)

    # -- what it has ------------------------------------------------------------------------------

    def put(self, name: str, fields: Any) -> None:
        """Write one of `secrets`, `prices`, `capacity`, `faults`."""
        write(self.root / f"{name}.json", fields)

    def environments(self, *names: str) -> None:
        """Have further environments in every workspace."""
        write(self.root / "environments.json", ["main", *names])

    def plant(self, *faults: dict[str, Any]) -> None:
        """Replace the faults; calls are counted anew."""
        write(self.root / "faults.json", list(faults))

    def act(self, do: str, box: str, **more: Any) -> None:
        """`preempt` a sandbox, or `lose` its host; returns when that is done."""
        path = self.root / "acts" / f"{secrets.token_hex(4)}.json"
        write(path, {"do": do, "box": box, **more})
        until(lambda: not path.exists(), f"{do} {box}", self._said)

    def boxes(self) -> list[dict[str, Any]]:
        """All sandboxes that ever were, the oldest first."""
        found = [read(path, {}) for path in (self.root / "boxes").glob("*/box.json")]
        return sorted(found, key=lambda box: box["created_s"])

    def living(self) -> list[dict[str, Any]]:
        """Sandboxes that cost something, or will as soon as there is capacity."""
        return [box for box in self.boxes() if not box["status"]]

    def calls(self) -> list[str]:
        """Names of all requests, the oldest first."""
        lines = (self.root / "calls.jsonl").read_text().splitlines()
        return [json.loads(line)["call"] for line in lines]

    def bill(self) -> float:
        """Micro-dollars up to now: seconds with a container times price; waiting costs nothing."""
        prices = read(self.root / "prices.json", {})
        boxes = [box for box in self.boxes() if box["started_s"]]
        spans = [
            (box["device"], (box["ended_s"] or time.time()) - box["started_s"]) for box in boxes
        ]
        return float(sum(seconds * prices.get(device, 0) / 3600 for device, seconds in spans))

    def _measured(self) -> meters.Reading:
        scaled_s = (time.monotonic() - self._begin_s) * self.factor
        return meters.Reading(scaled_s, self.bill() / 1e6, len(self.living()))

    def committed(self, volume: str) -> Path:
        """The committed tree of a volume."""
        return self.root / "volumes" / volume


@contextmanager
def rehearsed(root: Path, factor: float = 1.0) -> Iterator[Double]:
    """A double for as long as a block lasts."""
    double = Double(root, factor)
    try:
        double.start()
        yield double
    finally:
        double.close()


def until(
    holds: Callable[[], object],
    what: str,
    said: Callable[[], str] = str,
    within_s: float = _WITHIN_S,
) -> None:
    """Wait until something holds, for a while only."""
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what}: not within {within_s:.0f} s\n{said()}")
        time.sleep(0.02)


def _is_keeper(process: int, home: Path) -> bool:
    """Whether a number still belongs to the keeper of a sandbox, and not to somebody else."""
    with suppress(OSError):
        return str(home).encode() in Path(f"/proc/{process}/cmdline").read_bytes()
    return False
