"""Modal for the contract of the port: the vendor's SDK against its double."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import modal_parts as parts
from quantgrid.rental.errors import Call
from quantgrid.rental.modal import Modal
from quantgrid.rental.port import Name, Order
from rehearsal.modal.double import Double

FACTOR = 60.0
PATIENCE_S = 3.0

_REMOTE = {
    Call.WHOAMI: "WorkspaceNameLookup",
    Call.VOLUME: "VolumeGetById",
    Call.LAUNCH: "SandboxCreateV2",
    Call.FIND: "SandboxGetFromNameV2",
    Call.MACHINES: "SandboxListV2",
    Call.OBSERVE: "SandboxWaitV2",
    Call.STOP: "SandboxTerminateV2",
    Call.LOGS: "AppFetchLogs",
    Call.STATEMENTS: "SandboxGetStats",
}
"""The remote call that does what a call of the port is for."""


class ModalWorld:
    """A double and its adapters, for two workspaces."""

    def __init__(self, double: Double) -> None:
        self.double = double
        double.put("secrets", {"lab/main/STORE_KEY": {"STORE_KEY": "s3cr3t-of-the-account"}})
        double.environments("other")
        self.platform: Modal = parts.connected(
            double, patience_s=PATIENCE_S, capacity_s=PATIENCE_S, bill_s=0.0
        )
        self.volumes = {
            "good": parts.made_volume(self.platform),
            "twin": parts.made_volume(self.platform, environment="other"),
        }

    def order(self, name: Name, words: tuple[str, ...], **changes: object) -> Order:
        return parts.order(self.platform, *words, name=name, volume=self.volumes["good"], **changes)

    def other_account(self) -> Modal:
        return parts.connected(self.double, "home")

    def advance(self, seconds: float) -> None:
        time.sleep(seconds / FACTOR)

    def fault(self, call: Call, nth: int, kind: str) -> bool:
        remote = _REMOTE.get(call)
        planted = _PLAYED.get(kind)
        if remote is None or planted is None:
            return False
        self.double.plant({"call": remote, "nth": nth, "per": "key", **planted})
        return True

    def billing(self) -> set[str]:
        return {box["id"] for box in self.double.living()}

    def bill_microusd(self) -> float:
        return self.double.bill()


_PLAYED: dict[str, dict[str, object]] = {
    "before": {"do": "status", "status": "UNAVAILABLE"},
    "after": {"do": "lost"},
    "delay": {"do": "late", "seconds": PATIENCE_S + 1},
    "stale": {"do": "stale", "seconds": 3600},
    "capacity": {"do": "status", "status": "RESOURCE_EXHAUSTED"},
    "account": {"do": "status", "status": "PERMISSION_DENIED"},
}


@contextmanager
def world(folder: Path) -> Iterator[ModalWorld]:
    """A platform of its own, ended with all its sandboxes."""
    with parts.doubled(folder, FACTOR) as double:
        yield ModalWorld(double)
