"""RunPod's double for the tests of a session, and an account of its own for each test."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from quantgrid.rental.port import Candidate, Limits, Machine, Name, Order, Price
from quantgrid.rental.runpod import RunPod, Settings
from quantgrid.rental.runpod.calls import Api
from rehearsal.runpod.double import Double

FACTOR = 60.0
"""How much faster than a watch the double's time passes."""
IMAGE = "example.invalid/qg@sha256:" + "5" * 64
GPU = "NVIDIA GeForce RTX 4090"
PLACE = "EU-RO-1"
LIMITS = Limits(cap_s=86_400.0, grace_s=5.0, boot_s=1200.0, create_s=60.0, visible_s=60.0)
OWNER = "0" * 8


class Clock:
    """Seconds of a client that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Rig:
    """An account of the double, and the adapter that speaks for it."""

    def __init__(self, double: Double, account: str) -> None:
        self.double, self.account = double, account
        self.key = str(double.act("account", name=account))
        self.volume = f"vol-{account}"
        double.act("volume", id=self.volume, account=account)
        self.clock = Clock()
        self.platform = self.adapter()
        self._orders = 0

    def adapter(self, key: str = "", **changes: Any) -> RunPod:
        """An adapter with another key or other settings."""
        settings = Settings("lab", self.volume, LIMITS)._replace(**changes)
        api = Api(f"{self.double.url}/v2", key or self.key, self.clock, within_s=1.0)
        return RunPod(api, settings, self.clock)

    def order(self, *words: str, **changes: Any) -> Order:
        """An order of its own name."""
        self._orders += 1
        order = Order(
            name=Name(
                OWNER, self.account.encode().hex()[:12].ljust(12, "0"), self._orders, "a" * 12
            ),
            candidate=Candidate(GPU, 1, PLACE, Price(690_000, "test", "2026-11-30")),
            image=IMAGE,
            command=words or ("sleep", "1000"),
            environment=(),
            secrets=(),
            volume=self.volume,
            mount="/workspace",
            deadline_s=time.time() + 1000,
        )
        return order._replace(**changes)

    def launch(self, *words: str, **changes: Any) -> Machine:
        """A pod that runs."""
        machine = self.platform.launch(self.order(*words, **changes))
        self.double.wait(machine.id, "RUNNING")
        return machine

    @property
    def pods(self) -> list[dict[str, Any]]:
        """Every pod that the account ever had."""
        return [each for each in self.double.pods if each["account"] == self.account]

    @property
    def billing(self) -> list[str]:
        """Those that still cost something."""
        return [each["id"] for each in self.pods if not each["ended_s"]]

    def requests(self, operation: str = "") -> list[dict[str, Any]]:
        """What the account asked."""
        notes = self.double.requests(operation)
        return [each for each in notes if each["account"] == self.account]


@pytest.fixture(scope="session")
def runpod_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """The double, which ends with the session and with all that runs in its pods."""
    double = Double(tmp_path_factory.mktemp("runpod"), FACTOR)
    double.act("image", reference=IMAGE, PATH=os.environ["PATH"])
    yield double
    double.close()


@pytest.fixture
def runpod(runpod_double: Double, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An account of the double; nothing of it may still cost something when the test is over."""
    runpod_double.act("reset")
    runpod_double.act("options", boot_s=1.0, pull_s=1.0)
    name = f"t{abs(hash(request.node.nodeid)):x}"
    rig = Rig(runpod_double, name)
    yield rig
    left = rig.billing
    for pod in left:
        runpod_double.act("end", pod=pod)
    assert left == []
