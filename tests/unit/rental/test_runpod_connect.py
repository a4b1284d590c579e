"""What the file of the platform says reaches the adapter, and the doctor says what is missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantgrid.checks import Level
from quantgrid.checks import runpod as checks
from quantgrid.errors import ConfigRefusal
from quantgrid.load import Platform, load_platform, load_settings
from quantgrid.rental.errors import CallFault
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.reach import connect
from quantgrid.rental.runpod import ACCOUNT_KEY, KEY, from_environment
from runpod_rig import GPU, IMAGE, Rig


@pytest.fixture
def platform(root: Path) -> Platform:
    """The platform as the repository describes it."""
    return load_platform(root, "runpod")


@pytest.fixture
def environ(runpod: Rig, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of somebody who has a key."""
    values = {"RUNPOD_API_KEY": runpod.key, "QG_RUNPOD_URL": f"{runpod.double.url}/v2"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


def owned(platform: Platform, rig: Rig, **changes: Any) -> Platform:
    """The platform after a person wrote the own account, volume and image into its file."""
    assert platform.rented is not None
    mine = {"account": "lab", "volume": rig.volume, "image": IMAGE, "device": GPU}
    return replace(platform, rented={**platform.rented, **mine, **changes})


def test_adapter_has_what_the_file_says(
    platform: Platform, runpod: Rig, environ: dict[str, str]
) -> None:
    """Limits run as fast as the platform, and a pod learns how to reach a double."""
    facts = facts_of(replace(owned(platform, runpod), clock_factor=60.0))
    adapter = connect(facts, environ)

    assert adapter.limits.cap_s == 86_400 / 60
    assert adapter.limits.boot_s == 1200 / 60
    assert adapter.whoami().id == "lab"
    order = runpod.order("sleep", "1000", options=(("disk_gb", "40"),))
    machine = adapter.launch(order)
    body = runpod.double.show()["pods"][machine.id]["body"]
    assert (body["disk"], body["env"]["QG_RUNPOD_URL"]) == (40, environ["QG_RUNPOD_URL"])
    adapter.stop(machine.id)


def test_coordinator_rents_with_the_key_of_the_account_and_ends_with_that_of_its_pod(
    platform: Platform, runpod: Rig, environ: dict[str, str]
) -> None:
    """In a pod the usual name is a key of the pod alone: it may end that pod, and rent nothing."""
    facts = facts_of(owned(platform, runpod))
    machine = runpod.launch("sleep", "1000")
    own = str(runpod.double.show()["pods"][machine.id]["key"])
    there = {**environ, KEY: own}

    with pytest.raises(CallFault):
        connect(facts, there).whoami()
    assert connect(facts, {**there, ACCOUNT_KEY: runpod.key}).whoami().id == facts.account
    from_environment({**there, ACCOUNT_KEY: "none"}).stop(machine.id)

    assert runpod.billing == []


@pytest.mark.parametrize("options", [{"disk": 20}, {"disk_gb": "20"}, {"max_usd_per_h": True}])
def test_options_are_refused_when_runpod_has_none_of_them(
    platform: Platform, options: dict[str, Any]
) -> None:
    """An unknown option, or one of another kind, is named beside those that there are."""
    facts = facts_of(platform)._replace(options=options)
    with pytest.raises(ConfigRefusal, match="max_usd_per_h") as caught:
        connect(facts, {"RUNPOD_API_KEY": "k"})
    assert next(iter(options)) in str(caught.value)


def levels(root: Path, platform: Platform, **config: Any) -> dict[str, Level]:
    """Subject to level of every finding."""
    settings = load_settings(root, {"platform": "runpod", **config})
    return {each.subject: each.level for each in checks.check(root, settings, platform, None)}


def test_doctor_names_what_is_yours_when_nothing_was_filled_in(
    platform: Platform, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key it asks for it once, and goes on with what needs none."""
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    found = levels(root, platform)
    subjects = ("account", "volume", "image", "archive", "money")
    assert found == dict.fromkeys(subjects, Level.REFUSE)


def test_doctor_is_content_when_all_was_filled_in(
    platform: Platform, root: Path, runpod: Rig, environ: dict[str, str], tmp_path: Path
) -> None:
    """Account, volume, machines and image are as they must be; it rented nothing."""
    mine = owned(platform, runpod, shares_disk=True)
    found = levels(root, mine, archive=str(tmp_path / "archive"))
    refused = {subject for subject, level in found.items() if level is not Level.OK}
    assert refused == {"money"}  # nobody allowed any yet
    assert runpod.requests("createPod") == []


@pytest.mark.parametrize(
    ("subject", "changes"),
    [
        ("account", {"volume": "another"}),
        ("volume", {"volume": ""}),
        ("machines", {"device": "NVIDIA NONE"}),
        ("machines", {"options": {"max_usd_per_h": 0.01}}),
        ("image", {"image": "lab/quantgrid:latest"}),
        ("archive", {"shares_disk": False}),
    ],
)
def test_doctor_refuses_when_one_thing_is_wrong(
    platform: Platform,
    root: Path,
    runpod: Rig,
    environ: dict[str, str],
    tmp_path: Path,
    subject: str,
    changes: dict[str, Any],
) -> None:
    """Each thing that would cost a pod is refused before."""
    mine = owned(platform, runpod, **{"shares_disk": True, **changes})
    assert levels(root, mine, archive=str(tmp_path / "archive"))[subject] is Level.REFUSE


def test_facts_are_whole_when_the_repository_describes_the_platform(platform: Platform) -> None:
    """What is marked YOURS is unusable until somebody fills it in; all else is there."""
    facts = facts_of(platform)
    assert isinstance(facts, Facts)
    assert (facts.adapter, facts.id_variable) == ("runpod", "RUNPOD_POD_ID")
    assert platform.is_paid
    assert facts.volume == ""
    assert facts.image.endswith("@sha256:" + "0" * 64)
