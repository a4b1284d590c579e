"""The plain platform for the contract of the port."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from quantgrid.rental.errors import Call
from quantgrid.rental.port import Name, Order
from rehearsal.plain.double import Double, running
from rehearsal.plain.platform import PlainPlatform

FACTOR = 60.0
PATIENCE_S = 1.0
VOLUMES = {
    "v-good": {"name": "corpus", "account": "lab/main", "region": "here", "size_bytes": 1 << 30},
    "v-twin": {"name": "corpus", "account": "lab/main", "region": "there", "size_bytes": 1 << 30},
    "v-empty": {"name": "empty", "account": "lab/main", "region": "here", "size_bytes": 0},
}
ACCOUNTS = {
    "token-main": {"id": "lab/main", "balance_usd": 100.0, "quota": 1000},
    "token-other": {"id": "lab/other", "balance_usd": 100.0, "quota": 1000},
}


class PlainWorld:
    """A double and its adapters."""

    volumes: ClassVar = {"good": "v-good", "twin": "v-twin", "empty": "v-empty"}

    def __init__(self, double: Double) -> None:
        self.double = double
        self.platform = self._adapter("token-main")

    def _adapter(self, token: str) -> PlainPlatform:
        return PlainPlatform(self.double.address, token, factor=FACTOR, timeout_s=PATIENCE_S)

    def order(self, name: Name, words: tuple[str, ...], **changes: object) -> Order:
        candidate = self.platform.candidates("cpu", 1)[0]
        mount = str(changes.get("mount", "volume"))
        order = Order(
            name, candidate, "image", words, (), (), "v-good", mount, time.time() + 86400 / FACTOR
        )
        return order._replace(**changes)

    def other_account(self) -> PlainPlatform:
        return self._adapter("token-other")

    def advance(self, seconds: float) -> None:
        time.sleep(seconds / FACTOR)

    def fault(self, call: Call, nth: int, kind: str) -> bool:
        seconds = {"delay": PATIENCE_S + 0.5, "busy": 7.0}.get(kind, 0.0)
        self.double.fault(call, nth, {"account": "key"}.get(kind, kind), seconds)
        return True

    def billing(self) -> set[str]:
        return set(self.double.billing())

    def bill_microusd(self) -> float:
        return self.double.bill_usd() * 1e6


@contextmanager
def world(folder: Path) -> Iterator[PlainWorld]:
    """A platform of its own, ended with all its machines."""
    with running(
        folder,
        factor=FACTOR,
        volumes=VOLUMES,
        accounts=ACCOUNTS,
        secrets={"STORE_KEY": "s3cr3t-of-the-account"},
    ) as double:
        yield PlainWorld(double)
