"""What the platform knows, on disk after every change: accounts, pods, volumes, stock, faults."""

import json
import os
import secrets
import string
from pathlib import Path
from threading import RLock
from typing import Any

from rehearsal.runpod.clock import Clock

GPUS: dict[str, Any] = {
    "NVIDIA GeForce RTX 4090": {"memory": 24, "usd_per_h": 0.69},
    "NVIDIA A100 80GB PCIe": {"memory": 80, "usd_per_h": 1.64},
    "NVIDIA H100 80GB HBM3": {"memory": 80, "usd_per_h": 2.99},
}
"""What the double rents out; its prices are near those of November 2026, and only the double's."""
CPUS: dict[str, Any] = {"cpu3c": {"usd_per_vcpu_h": 0.03, "ram_gb_per_vcpu": 2.0}}
PLACES = ("EU-RO-1", "US-KS-2")
OPTIONS: dict[str, Any] = {
    "boot_s": 20.0,  # from PROVISIONING to STARTING
    "pull_s": 30.0,  # from STARTING to RUNNING
    "restart_s": 17.0,  # from the end of the first process to its next start
    "hidden_s": 0.0,  # for how long a fresh pod is in no list and answers 404
    "grace_s": 5.0,  # from SIGTERM to SIGKILL
    "per_minute": 60,
    "per_hour": 3000,
    "per_day": 50000,
    "page": 1000,  # pods in one reply
    "catalog": "",  # a level that the catalogue shows whatever is free; empty for the truth
    "unmounted": False,  # whether the next pods come without their mounts
}


class State:
    """Everything that outlives the double.

    Args:
        folder: Where it is kept.
        factor: How much faster than a watch its clock runs, if it is new.
    """

    def __init__(self, folder: Path, factor: float) -> None:
        self.folder = folder
        self.lock = RLock()
        self._path = folder / "state.json"
        self.data: dict[str, Any] = (
            json.loads(self._path.read_bytes()) if self._path.exists() else _fresh()
        )
        self.clock = Clock(self.data["clock"], factor)
        self.save()

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    @property
    def options(self) -> dict[str, Any]:
        """How the platform behaves."""
        return self.data["options"]  # type: ignore[no-any-return]

    @property
    def live(self) -> list[dict[str, Any]]:
        """Every pod that was not terminated."""
        return [each for each in self.data["pods"].values() if each["status"] != "TERMINATED"]

    def save(self) -> None:
        """Write everything down, whole."""
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.data))
        part.replace(self._path)

    def note(self, name: str, value: dict[str, Any]) -> None:
        """Append a line to a log that is never read by the double itself."""
        with (self.folder / f"{name}.jsonl").open("a") as log:
            log.write(json.dumps(value) + "\n")

    def pod_folder(self, pod: str) -> Path:
        """Where a pod's disk and log are."""
        return self.folder / "pods" / pod

    def volume_folder(self, volume: str) -> Path:
        """What is on a network volume."""
        return self.folder / "volumes" / volume


def fresh_id(length: int = 14) -> str:
    """An id as the platform gives them: lower-case letters and digits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


def fresh_stock() -> dict[str, dict[str, int]]:
    """What is free of each kind in each data centre: plenty."""
    return {kind: dict.fromkeys(PLACES, 1000) for kind in (*GPUS, *CPUS)}


def _fresh() -> dict[str, Any]:
    key = os.environ.get("REHEARSAL_RUNPOD_KEY") or f"rpa_{fresh_id(40).upper()}"
    return {
        "clock": {},
        "accounts": {"lab": {"balance_usd": 1000.0, "secrets": {}}},
        "keys": {key: {"account": "lab", "pod": None, "is_revoked": False}},
        "pods": {},
        "volumes": {},
        "registries": {},
        "stock": fresh_stock(),
        "images": {},
        "faults": [],
        "options": dict(OPTIONS),
    }
