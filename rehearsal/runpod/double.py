"""The double as a test holds it: started, asked, killed, started again, ended with all its pods."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from rehearsal import meters
from rehearsal.runpod.containers import processes_of

_WITHIN_S = 60.0
_ROOT = Path(__file__).resolve().parents[2]


class Double:
    """One running double.

    Args:
        folder: Where its state is; a second one on the same folder goes on with it.
        factor: How much faster than a watch its clock runs.
    """

    def __init__(self, folder: Path, factor: float = 1.0) -> None:
        self.folder, self.factor = folder, factor
        self.process = self._serve()
        address = self._address()
        self.url, self.key = str(address["url"]), str(address["key"])
        self._begin_s = float(self.show()["now_s"])
        meters.add(self, self._measured)

    def _serve(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "rehearsal.runpod"]
        words += ["--state", str(self.folder), "--factor", str(self.factor)]
        words += ["--until", str(os.getpid())]
        return subprocess.Popen(words, cwd=_ROOT, start_new_session=True)

    def _address(self) -> dict[str, Any]:
        path, end_s = self.folder / "address.json", time.monotonic() + _WITHIN_S
        while time.monotonic() < end_s:
            if path.exists() and self._answers(json.loads(path.read_text())):
                return json.loads(path.read_text())  # type: ignore[no-any-return]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the double did not start; its end was {self.process.poll()}")

    def _answers(self, address: dict[str, Any]) -> bool:
        self.url = str(address["url"])
        try:
            self.act("show")
        except OSError:
            return False
        return True

    def act(self, name: str, /, **values: Any) -> Any:
        """Do something to it: `rehearsal.runpod.controls` says what there is."""
        body = json.dumps(values).encode()
        request = urllib.request.Request(f"{self.url}/_double/{name}", body, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=_WITHIN_S) as reply:  # noqa: S310
            return json.loads(reply.read())

    def fault(self, operation: str, kind: str, **values: Any) -> None:
        """Let something go wrong with the next request of an operation."""
        self.act("fault", operation=operation, kind=kind, **values)

    def advance(self, seconds: float, steps: int = 1) -> float:
        """Let its time pass; the time it is then."""
        return float(self.act("advance", seconds=seconds, steps=steps))

    def show(self) -> dict[str, Any]:
        """Everything that it knows."""
        return self.act("show")  # type: ignore[no-any-return]

    @property
    def pods(self) -> list[dict[str, Any]]:
        """Every pod that ever was."""
        return list(self.show()["pods"].values())

    @property
    def billing(self) -> list[dict[str, Any]]:
        """Every pod that still costs something: none may be left at the end."""
        return [each for each in self.pods if not each["ended_s"]]

    def _measured(self) -> meters.Reading:
        seen = self.show()
        usd, billing = sum(seen["spent_usd"].values()), len(self.billing)
        return meters.Reading(float(seen["now_s"]) - self._begin_s, usd, billing)

    def requests(self, operation: str = "") -> list[dict[str, Any]]:
        """What it was asked, the oldest first."""
        path = self.folder / "requests.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        notes = [json.loads(line) for line in lines]
        return [each for each in notes if operation in {"", each["operation"]}]

    def wait(self, pod: str, status: str) -> dict[str, Any]:
        """Wait until a pod has a status."""
        end_s = time.monotonic() + _WITHIN_S
        while time.monotonic() < end_s:
            found = self.show()["pods"][pod]
            if found["status"] == status:
                return found  # type: ignore[no-any-return]
            time.sleep(0.05)
        raise TimeoutError(f"pod {pod} is {found['status']}, not {status}")

    def kill(self) -> None:
        """End the double as a crash does; its pods live on."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def start(self) -> None:
        """Start it again after a crash, at the same address."""
        self.process = self._serve()
        self._address()

    def close(self) -> None:
        """End it and every process of its pods."""
        meters.remove(self)
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(_WITHIN_S)
        state = json.loads((self.folder / "state.json").read_bytes())
        for pod in state["pods"]:
            for pid in processes_of(pod):
                os.kill(pid, signal.SIGKILL)
