"""What RunPod's answers mean, without any call."""

import json
from typing import Any

import pytest

from quantgrid.rental.errors import Answer, Call, Trouble
from quantgrid.rental.port import Candidate, MachineState, Name, Order, Price
from quantgrid.rental.runpod import answers
from rehearsal.runpod.operations import NO_CAPACITY

WAY = answers.Way((), 2, 4, 0, (), 0, "2026-11-30")
POD: dict[str, Any] = {"id": "p", "name": "n", "status": "RUNNING", "mounts": {}, "env": {}}


def gpu(name: str, usd: float, **places: str) -> dict[str, Any]:
    """A kind of the catalogue."""
    there = [{"id": k, "name": k, "availability": v} for k, v in places.items()]
    price, most = {"secure": usd, "community": 0.0}, {"secure": 8, "community": 0}
    return {"id": name, "price": price, "maxCount": most, "dataCenters": there}


@pytest.mark.parametrize(
    ("status", "detail", "expected"),
    [
        (400, NO_CAPACITY, Trouble.CAPACITY),
        (400, "Unable to find a machine for this pod", Trouble.CAPACITY),
        (400, "This machine does not have the resources to deploy your pod", Trouble.CAPACITY),
        (400, "mounts.persistent and mounts.network exclude each other", Trouble.FATAL),
        (401, "invalid API key", Trouble.ACCOUNT),
        (402, "insufficient balance", Trouble.ACCOUNT),
        (403, "access denied", Trouble.ACCOUNT),
        (403, "error code: 1010", Trouble.ACCOUNT),
        (403, "your account cannot use this pool", Trouble.CAPACITY),
        (404, "network volume not found", Trouble.FATAL),
        (408, "", Trouble.AMBIGUOUS),
        (413, "", Trouble.FATAL),
        (422, "additional properties 'bogus' not allowed", Trouble.FATAL),
        (429, "", Trouble.RETRY),
        (500, NO_CAPACITY, Trouble.AMBIGUOUS),
        (522, "", Trouble.AMBIGUOUS),
        (0, "no reply", Trouble.AMBIGUOUS),
    ],
)
def test_create_has_a_class_of_trouble_when_it_is_answered(
    status: int, detail: str, expected: Trouble
) -> None:
    """Only what surely did nothing may be repeated; a 500 is looked for, whatever it says."""
    assert answers.trouble(Answer(Call.LAUNCH, status, detail)) is expected


def test_look_may_be_repeated_when_the_same_answer_would_be_ambiguous_for_a_create() -> None:
    """Looking changes nothing, so what is ambiguous for a create is a retry for a look."""
    for status in (0, 408, 500, 502, 503):
        assert answers.trouble(Answer(Call.MACHINES, status)) is Trouble.RETRY


def test_words_are_short_when_a_page_of_a_network_came_instead() -> None:
    """An error keeps the words of a page without its tags."""
    page = b"<html><head><title>502</title></head><body><h1>Error 502</h1>" + b"x" * 9999
    assert answers.detail(page).startswith("502 Error 502 x")
    assert len(answers.detail(page)) <= 200
    problem = {"title": "Bad", "status": 422, "detail": "no", "errors": ["$: bogus"]}
    assert answers.detail(json.dumps(problem).encode()) == "no; $: bogus"


@pytest.mark.parametrize(
    ("change", "state", "is_billing"),
    [
        ({"status": "PROVISIONING"}, MachineState.BOOTING, True),
        ({"status": "STARTING"}, MachineState.BOOTING, True),
        ({"runtime": {"uptime": 7}}, MachineState.RUNNING, True),
        ({"status": "EXITED"}, MachineState.ENDED, True),
        ({"status": "ERROR"}, MachineState.ENDED, True),
        ({"status": "TERMINATED"}, MachineState.ENDED, False),
        ({"status": "A NEW ONE"}, MachineState.ENDED, True),
        ({"gpu": {"id": "g", "count": 0}}, MachineState.ENDED, True),
        ({"env": {answers.ASKED: "vol"}}, MachineState.ENDED, True),
        (
            {"env": {answers.ASKED: "vol"}, "mounts": {"network": [{"volumeId": "vol"}]}},
            MachineState.RUNNING,
            True,
        ),
    ],
)
def test_pod_is_shown_as_what_it_costs_and_is_good_for(
    change: dict[str, Any], state: MachineState, *, is_billing: bool
) -> None:
    """A stopped pod's disk is paid for; a pod without its volume or its GPU is of no use."""
    shown = answers.machine(POD | change)
    assert (shown.state, shown.is_billing) == (state, is_billing)


def test_candidates_go_by_price_and_then_by_what_is_free() -> None:
    """The cheapest kind first, and of one kind the place where most is free."""
    kinds = [gpu("dear", 3.0, A="HIGH"), gpu("cheap", 1.0, A="LOW", B="HIGH")]
    found = answers.candidates(kinds, WAY)
    assert [(each.device, each.region) for each in found] == [
        ("cheap", "B"),
        ("cheap", "A"),
        ("dear", "A"),
    ]
    assert found[0].price.microusd_per_h == 2_000_000
    assert {each.num_devices for each in found} == {2}


def test_candidates_are_kept_when_the_catalogue_shows_nothing_free() -> None:
    """Waiting is no failure: a kind that is free nowhere is asked for where it is declared."""
    found = answers.candidates([gpu("g", 1.0)], WAY._replace(regions=("EU-RO-1",)))
    assert [each.region for each in found] == ["EU-RO-1"]


def test_candidates_leave_out_what_is_too_dear_elsewhere_or_not_named() -> None:
    """A volume binds to its place, a person to the kinds and the price that he named."""
    kinds = [gpu("a", 1.0, A="HIGH", B="HIGH"), gpu("b", 9.0, B="HIGH"), gpu("c", 1.0, B="LOW")]
    way = WAY._replace(devices=("a", "b"), regions=("B",), max_microusd_per_h=2_000_000)
    assert [(c.device, c.region) for c in answers.candidates(kinds, way)] == [("a", "B")]


def test_price_is_never_rounded_down() -> None:
    """What is promised covers what is paid."""
    found = answers.candidates([gpu("g", 0.1234561, A="LOW")], WAY._replace(num_devices=3))
    assert found[0].price.microusd_per_h == 370_369
    way = WAY._replace(num_devices=3, disk_gb=73)
    found = answers.candidates([gpu("g", 0.1234561, A="LOW")], way)
    assert found[0].price.microusd_per_h == 380_369  # the disk is paid for as well


def test_body_says_everything_and_no_secret() -> None:
    """Words stay words, the number of GPUs is always there, secrets are names."""
    order = Order(
        name=Name("0" * 8, "1" * 12, 1, "2" * 12),
        candidate=Candidate("g", 1, "EU-RO-1", Price(1, "test", "2026-11-30")),
        image="i",
        command=("python", "-c", "print('a b')"),
        environment=(("A", "b"),),
        secrets=("S3_KEY",),
        volume="vol",
        mount="/workspace",
        deadline_s=0.0,
    )
    body = answers.body(order, answers.Body(30, "SECURE", "reg", 4))
    assert json.loads(body.pop("args")) == {
        "entrypoint": ["python"],
        "cmd": ["-c", "print('a b')"],
    }
    env = {"A": "b", "S3_KEY": "{{ RUNPOD_SECRET_S3_KEY }}", answers.ASKED: "vol"}
    assert body == {
        "name": str(order.name),
        "image": "i",
        "disk": 30,
        "cloud": "SECURE",
        "env": env,
        "gpu": {"id": "g", "count": 1},
        "dataCenterIds": ["EU-RO-1"],
        "mounts": {"network": [{"volumeId": "vol", "path": "/workspace"}]},
        "registry": "reg",
    }
    no_gpu = order._replace(candidate=order.candidate._replace(num_devices=0), volume="")
    bare = answers.body(no_gpu, answers.Body(30, "SECURE", "", 4))
    assert bare["disk"] == 30
    more = no_gpu._replace(options=(("disk_gb", "70"), ("cloud", "COMMUNITY")))
    asked = answers.body(more, answers.Body(30, "SECURE", "", 4, (("QG_RUNPOD_URL", "u"),)))
    assert (asked["disk"], asked["cloud"], asked["env"]["QG_RUNPOD_URL"]) == (70, "COMMUNITY", "u")
    assert bare["cpu"] == {"id": "g", "vcpuCount": 4}
    assert not {"gpu", "mounts", "registry"} & bare.keys()
