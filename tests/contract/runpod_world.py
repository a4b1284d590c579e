"""RunPod for the contract of the port: the adapter over real HTTP, and its double."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from quantgrid.rental.errors import Call
from quantgrid.rental.port import Limits, Name, Order
from quantgrid.rental.runpod import RunPod, Settings
from quantgrid.rental.runpod.calls import Api
from rehearsal.runpod.containers import processes_of
from rehearsal.runpod.double import Double

FACTOR = 60.0
PATIENCE_S = 1.0
IMAGE = "example.invalid/qg@sha256:" + "5" * 64
LIMITS = Limits(86_400 / FACTOR, 5 / FACTOR, 1200 / FACTOR, 60 / FACTOR, 60 / FACTOR)
OPERATIONS = {
    Call.WHOAMI: "getNetworkVolume",
    Call.VOLUME: "getNetworkVolume",
    Call.CANDIDATES: "listGpuTypes",
    Call.LAUNCH: "createPod",
    Call.FIND: "listPods",
    Call.MACHINES: "listPods",
    Call.OBSERVE: "getPod",
    Call.STOP: "deletePod",
    Call.LOGS: "getPodLogs",
    Call.STATEMENTS: "listPodBilling",
}


class RunPodWorld:
    """The double and its adapters."""

    volumes: ClassVar = {"good": "v-good", "twin": "v-twin", "empty": "v-empty"}

    def __init__(self, double: Double) -> None:
        self.double = double
        double.act("image", reference=IMAGE, PATH=os.environ["PATH"])
        double.act("options", boot_s=1.0, pull_s=1.0, per_minute=10_000)
        double.act("account", name="lab", secrets={"STORE_KEY": _SECRET})
        for role, id_ in self.volumes.items():
            double.act("volume", id=id_, name="corpus", size=_SIZES[role])

    @property
    def platform(self) -> RunPod:
        """The adapter; a new one, for it remembers how long a busy platform wants to be left."""
        return self._adapter(self.double.key)

    def _adapter(self, key: str) -> RunPod:
        api = Api(f"{self.double.url}/v2", key, within_s=PATIENCE_S)
        return RunPod(api, Settings("lab", self.volumes["good"], LIMITS))

    def order(self, name: Name, words: tuple[str, ...], **changes: object) -> Order:
        """The cheapest GPU, with the volume."""
        candidate, end_s = self.platform.candidates("", 1)[0], time.time() + 86_400 / FACTOR
        volume = self.volumes["good"]
        order = Order(name, candidate, IMAGE, words, (), (), volume, "/workspace", end_s)
        return order._replace(**changes)  # type: ignore[arg-type]

    def other_account(self) -> RunPod:
        """An account that owns none of these volumes."""
        return self._adapter(self.double.act("account", name="other"))

    def advance(self, seconds: float) -> None:
        """Let nominal seconds pass at once."""
        self.double.advance(seconds)

    def fault(self, call: Call, nth: int, kind: str) -> bool:
        """Let the nth next request of a call's operation fail."""
        fate, values = _FATES[kind]
        if kind == "stale" and call not in {Call.FIND, Call.MACHINES}:
            return False  # the platform's single reads are not known to be old
        if kind == "capacity" and call is not Call.LAUNCH:
            return False
        self.double.fault(OPERATIONS[call], fate, nth=nth, **values)
        return True

    def billing(self) -> set[str]:
        """Pods that are paid for, or have a process left in their grace."""
        pods = self.double.pods
        return {p["id"] for p in pods if not p["ended_s"] or any(processes_of(p["id"]))}

    def bill_microusd(self) -> float:
        """By the double's own count."""
        return float(self.double.show()["spent_usd"]["lab"]) * 1e6


_SIZES = {"good": 100, "twin": 50, "empty": 0}
_SECRET = "s3cr3t-of-the-account"  # noqa: S105 - of a double
_FATES: dict[str, tuple[str, dict[str, object]]] = {
    "before": ("html", {"status": 502}),
    "after": ("lost", {}),
    "delay": ("slow", {"seconds": 2 * PATIENCE_S + 0.5}),
    "stale": ("stale", {"seconds": 60.0}),
    "capacity": ("answer", {"status": 400, "detail": "capacity"}),
    "account": ("answer", {"status": 401, "detail": "invalid API key"}),
    "busy": ("answer", {"status": 429, "retry_after_s": 7}),
}


@contextmanager
def world(folder: Path) -> Iterator[RunPodWorld]:
    """A platform of its own, ended with all its pods."""
    double = Double(folder, FACTOR)
    try:
        yield RunPodWorld(double)
    finally:
        double.close()
