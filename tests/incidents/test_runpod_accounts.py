"""Accounts of RunPod that change while a grid runs, and volumes that are not what they seem.

Incident: the balance of an account was used up and its pods were stopped or ended; a key was
revoked with pods running; a volume had no size, or was the twin of another one (the vendor's
billing page, ai-dock 21; CP 4: 20, 28).

Guards: `quantgrid.rental.rounds.Rounds` compares account and volume before the first create and
passes the platform's words on; a lease without money ends, and what was kept goes on later.
"""

from pathlib import Path

import pytest

from quantgrid.rental.lease import End, Phase
from runpod_controller import LIMITS, Controller
from runpod_rig import Rig

A, B = "a" * 64, "b" * 64


@pytest.fixture
def controller(runpod: Rig, tmp_path: Path) -> Controller:
    """A controller whose machines work until they are ended."""
    made = Controller(runpod, tmp_path / "store")
    made.work_s = 1000.0
    return made


def test_lease_ends_and_says_why_when_the_money_is_gone_and_goes_on_with_new_money(
    controller: Controller,
) -> None:
    """The stopped pod is ended, no create is repeated, and a payment lets it go on."""
    rig = controller.rig
    controller.want(A)
    first = controller.until(A, Phase.RUNNING)
    rig.double.act("account", name=rig.account, balance_usd=0.0)

    ended = controller.until(A, Phase.ERROR)

    assert ended.end is End.ACCOUNT
    assert rig.billing == []
    assert len(rig.requests("createPod")) == 2
    assert any("HTTP 402: insufficient balance" in each for each in controller.told)
    rig.double.act("account", name=rig.account, balance_usd=1000.0)
    controller.want(A)
    later = controller.until(A, Phase.RUNNING)
    assert later.attempt > first.attempt
    controller.end(A)


def test_job_goes_on_when_the_key_is_revoked_and_nothing_more_is_rented(
    controller: Controller,
) -> None:
    """A running pod beats on, a second lease gets none; with another key both are as they were."""
    rig = controller.rig
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    rig.double.act("key", key=rig.key, is_revoked=True)
    controller.want(B)
    controller.spend(1.5)

    assert controller.lease(A).phase is Phase.RUNNING
    assert len(rig.pods) == 1
    rig.double.act("key", key=rig.key, is_revoked=False)
    controller.want(B)
    controller.until(B, Phase.RUNNING)
    assert {lease.machine, controller.lease(B).machine} == set(rig.billing)
    for subject in (A, B):
        controller.end(subject)


@pytest.mark.parametrize("place", ["empty volume", "twin", "deleted volume"])
def test_nothing_is_created_when_the_volume_is_not_the_one_that_is_meant(
    runpod: Rig, tmp_path: Path, place: str
) -> None:
    """CP 4.20, 4.28: no size, another account's twin, or none: refused by its id."""
    other = str(runpod.double.act("account", name=f"{runpod.account}-other"))
    if place == "empty volume":
        runpod.double.act("volume", id=runpod.volume, account=runpod.account, size=0)
        platform = runpod.adapter(limits=LIMITS)
    elif place == "twin":
        runpod.double.act("volume", id=f"twin-{runpod.account}", account=f"{runpod.account}-other")
        platform = runpod.adapter(other, limits=LIMITS)
    else:
        platform = runpod.adapter(limits=LIMITS, volume="deleted")
    controller = Controller(runpod, tmp_path / "store", platform=platform)
    controller.want(A)

    controller.spend(0.5)

    assert runpod.requests("createPod") == []
    assert controller.lease(A).attempt == 0
    assert any(each.startswith("refused:") for each in controller.told)
    assert any(runpod.volume in each for each in controller.told)
