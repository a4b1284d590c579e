"""Calls to RunPod that did something else than they said, over real HTTP.

Incident: RunPod answered 500, a page of its network, or nothing, though the pod was there;
repeating made two; others' pods were taken for ours; the catalogue said that something was free,
and the create that nothing was; an interface that was down had healthy jobs ended
(transformerlab-app 2305, comfyui-mcp 251 and 276, skypilot 656, 779 and 10487, the vendor's
document of the create call; CP 4: 1, 2, 3, 11, 13, 14, 32).

Guards: `quantgrid.rental.runpod.answers.trouble` calls ambiguous whatever may have been done,
`quantgrid.rental.runpod.platform.RunPod` repeats nothing and finds by name, and
`quantgrid.rental.steps.step` believes a machine that beats before any word of a platform.
"""

import json
from pathlib import Path

import pytest

from quantgrid.rental.lease import Phase
from quantgrid.rental.port import Name
from runpod_controller import LIMITS, TERMS, Controller
from runpod_rig import GPU, PLACE, Rig

A = "a" * 64


@pytest.fixture
def controller(runpod: Rig, tmp_path: Path) -> Controller:
    """A controller whose machines work until they are ended."""
    made = Controller(runpod, tmp_path / "store")
    made.work_s = 1000.0
    return made


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("answer-after", {"status": 500}),
        ("cut", {}),
        pytest.param("html-after", {"status": 502}, marks=pytest.mark.nightly),
        pytest.param("lost", {}, marks=pytest.mark.nightly),
    ],
)
def test_pod_is_one_and_adopted_when_its_create_seemed_to_fail(
    controller: Controller, kind: str, values: dict[str, int]
) -> None:
    """CP 4.1, 4.2: one create, one pod, and its lease has it."""
    controller.rig.double.fault("createPod", kind, **values)
    controller.want(A)

    lease = controller.until(A, Phase.RUNNING)

    assert [pod["id"] for pod in controller.rig.pods] == [lease.machine]
    assert len(controller.rig.requests("createPod")) == 1
    controller.end(A)


def test_pod_is_one_when_its_create_seemed_to_fail_and_it_hides(controller: Controller) -> None:
    """CP 4.1, 4.4: no second create, though for long no listing shows what the first one made."""
    controller.rig.double.act("options", hidden_s=90.0, boot_s=180.0)  # 1.5 and 3 s of a watch
    controller.rig.double.fault("createPod", "answer-after", status=500)
    controller.want(A, TERMS._replace(limits=LIMITS._replace(visible_s=4.0)))

    controller.until(A, Phase.RUNNING)

    assert len(controller.rig.pods) == 1
    controller.end(A)


def test_second_create_comes_after_looks_when_the_first_did_nothing(
    controller: Controller,
) -> None:
    """CP 4.2: a page of the network instead of a pod is looked for three times before the next."""
    controller.rig.double.fault("createPod", "html", status=503)
    controller.want(A)

    controller.until(A, Phase.RUNNING)

    asked = [each["operation"] for each in controller.rig.requests()]
    first, second = [i for i, name in enumerate(asked) if name == "createPod"]
    assert asked[first:second].count("listPods") >= 3
    names = [json.loads(each["body"])["name"] for each in controller.rig.requests("createPod")]
    assert len(set(names)) == 2
    assert len(controller.rig.pods) == 1
    controller.end(A)


def test_pod_of_another_is_untouched_when_its_name_is_like_ours(controller: Controller) -> None:
    """CP 4.3: a pod with another owner, or another way of naming, is neither adopted nor ended."""
    rig = controller.rig
    twin = rig.platform.launch(rig.order(name=Name("deadbeef", A[:12], 1, "0" * 12)))
    like = rig.platform.launch(rig.order()._replace(name="qg-worker"))  # type: ignore[arg-type]
    rig.double.fault("createPod", "lost")
    controller.want(A)

    lease = controller.until(A, Phase.RUNNING)
    controller.end(A)

    assert lease.machine not in {twin.id, like.id}
    assert set(rig.billing) == {twin.id, like.id}
    for each in (twin, like):
        rig.platform.stop(each.id)


def test_pods_are_as_many_as_leases_when_creates_fail_in_every_way(
    controller: Controller,
) -> None:
    """CP 4.11: twelve creates at once, of which seven go wrong: one pod each at the end."""
    kinds = ["lost", "html-after", "html", "reset", "cut", "answer-after", "slow"]
    for number, kind in enumerate(kinds):
        controller.rig.double.fault("createPod", kind, nth=number + 2, status=502, seconds=1.5)
    subjects = [f"{number:012x}".ljust(64, "0") for number in range(1, 13)]
    for subject in subjects:
        controller.want(subject)
    for subject in subjects:
        controller.until(subject, Phase.RUNNING)
    controller.spend(0.5)

    machines = {controller.lease(subject).machine for subject in subjects}
    assert set(controller.rig.billing) == machines
    assert len(machines) == 12
    for subject in subjects:
        controller.rounds.cancel(subject)
    controller.until_so(lambda: controller.rig.billing == [], subjects[0])


def test_pod_is_one_when_two_controllers_want_it(controller: Controller, tmp_path: Path) -> None:
    """CP 4.13: two controllers on one register rent once, and either may end it."""
    other = Controller(controller.rig, tmp_path / "store", by="two")
    other.work_s = 1000.0
    for each in (controller, other):
        each.want(A)

    def is_running() -> bool:
        other.rounds.go()
        return controller.lease(A).phase is Phase.RUNNING

    controller.until_so(is_running, A)

    assert len(controller.rig.pods) == 1
    other.end(A)


def test_job_is_untouched_when_the_interface_is_down(controller: Controller) -> None:
    """CP 4.14: nothing answers for long, then all pods are missing in a list; the pod lives on."""
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    rig = controller.rig
    rig.double.fault("any", "html", status=503, nth=None)
    controller.spend(1.5)
    assert controller.lease(A).phase is Phase.RUNNING
    rig.double.act("clear")
    rig.double.fault("listPods", "stale", nth=None, seconds=10_000.0)
    controller.spend(1.5)
    assert controller.lease(A) == lease
    rig.double.act("clear")
    assert rig.billing == [lease.machine]
    controller.end(A)


def test_next_place_is_asked_when_the_catalogue_was_wrong(controller: Controller) -> None:
    """CP 4.32: the create says that nothing is free; no failure, and the next is taken."""
    controller.rig.double.act("stock", kind=GPU, place=PLACE, count=0)
    controller.rig.double.act("options", catalog="HIGH")
    controller.extra = {"volume": ""}
    controller.want(A)

    lease = controller.until(A, Phase.RUNNING)

    assert lease.candidate.region == "US-KS-2"
    assert (lease.failures, lease.waits) == (0, 1)
    assert len(controller.rig.pods) == 1
    controller.end(A)
