"""A double of Modal for tests, and adapters that the real SDK connects to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quantgrid import modal_sdk
from quantgrid.rental.modal import LIMITS, Modal, Place
from quantgrid.rental.port import Candidate, Limits, Name, Order, Price
from rehearsal.modal.double import Double, rehearsed

OWNER = "0123abcd"
IMAGE = f"example.invalid/quantgrid@sha256:{'0' * 64}"
CPU = Candidate("", 0, "", Price(190_000, "test", "2026-11-30"))
GPU = Candidate("H100", 1, "", Price(3_950_000, "test", "2026-11-30"))
PRICES = {"cpu": 190_000, "H100:1": 3_950_000}
QUICK = LIMITS._replace(boot_s=60.0, create_s=8.0, visible_s=0.2)
DAY_S = 86_400.0

IS_NEW = modal_sdk.find_version() >= (1, 6)
"""The SDK takes the newer backend for CPU sandboxes from 1.6 on."""
CREATE = "SandboxCreateV2" if IS_NEW else "SandboxCreate"
LIST = "SandboxListV2" if IS_NEW else "SandboxList"


@contextmanager
def doubled(root: Path, factor: float = 1.0) -> Iterator[Double]:
    """A double with prices."""
    with rehearsed(root, factor) as double:
        double.put("prices", PRICES)
        yield double


def client(double: Double, workspace: str) -> Any:
    """A client of the SDK for somebody of a workspace."""
    import modal

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODAL_SERVER_URL", double.url)
        return modal.Client.from_credentials(*double.token(workspace))


def connected(
    double: Double,
    workspace: str = "lab",
    limits: Limits = QUICK,
    patience_s: float = 30.0,
    capacity_s: float = 60.0,
    bill_s: float = 0.0,
    **place: Any,
) -> Modal:
    """The adapter as somebody of a workspace."""
    return Modal(
        Place(**{"volume_name": "grid", "factor": double.factor} | place),
        (GPU, CPU),
        limits=limits,
        client=client(double, workspace),
        patience_s=patience_s,
        capacity_s=capacity_s,
        bill_s=bill_s,
    )


def made_volume(platform: Modal, name: str = "grid", environment: str = "main") -> str:
    """The id of a volume that a person made."""
    import modal

    volume = modal.Volume.from_name(
        name, environment_name=environment, create_if_missing=True, client=platform._client
    )
    return str(volume.hydrate().object_id)


def order(platform: Modal, *words: str, nonce: str = "a" * 12, **changes: Any) -> Order:
    """An order for a CPU sandbox that lives for a day."""
    whole = Order(
        name=Name(OWNER, "5" * 12, 1, nonce),
        candidate=CPU,
        image=IMAGE,
        command=words,
        environment=(),
        secrets=(),
        volume="",
        mount="/grid",
        deadline_s=platform.now() + DAY_S / platform.place.factor,
    )
    return whole._replace(**changes)
