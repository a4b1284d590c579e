"""A probe is measured before anything else is paid: the machine for it has to be affordable."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from quantgrid import probes
from quantgrid.devices import load_device
from quantgrid.load import load_platform
from quantgrid.rental import modal, renting, runpod
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.packing import Kind
from quantgrid.rental.port import Candidate, Limits, Price

_TAIL_S = 300
"""What a promise has after the grace (docs/formats/rental.md)."""


def _runpod(facts: Facts) -> Limits:
    return runpod.connected(facts, {runpod.KEY: "none"}).limits


@pytest.mark.parametrize(
    ("name", "limits"), [("runpod", _runpod), ("modal", lambda _: modal.LIMITS)]
)
def test_probe_has_its_five_minutes_when_the_boot_is_promised_too(
    root: Path, name: str, limits: Callable[[Facts], Limits]
) -> None:
    """What it may cost holds all that is promised for its lease; else none is ever rented."""
    platform = load_platform(root, name)
    facts, device = facts_of(platform), load_device(root, str(platform.bills_as))
    microusd_per_h = round(device.usd_per_hour * 1e6)
    most = round(probes.most_usd(platform, device.usd_per_hour) * 1e6)
    ways = (Candidate("gpu", 1, "", Price(microusd_per_h, "test", "2026-11-30")),)
    kind = Kind("gpu", 1, max_microusd=most, run_s=probes.CAP_S)

    terms = renting.terms(facts, SimpleNamespace(limits=limits(facts)), kind, ways)  # type: ignore[arg-type]

    assert terms.run_s == probes.CAP_S
    promised_s = terms.life_s + terms.limits.grace_s + _TAIL_S
    assert promised_s * microusd_per_h / 3600 <= most
