"""Pods that went on costing after their job, or that were taken for something else.

Incident: a container was started again after its script had ended; a delete failed or answered 404
and was taken for done; an image never came; a pod was deleted by hand; a start was cancelled; pods
were forgotten when the configuration changed, or ended though they lived; a volume was not mounted;
a watchdog died with its session (dstack 1133, 1142, 1551, 2068, 2114, horizon 372, yomotsusaka 124,
skypilot 2990, 4410, 7318 and 7336, opengeni 241, makermodslab 34, ai-dock 21, firstmate 4307;
CP 4: 4 to 10, 12, 19, 24, 26 to 30).

Guards: `quantgrid.rental.steps.step` asks again until two looks miss a pod,
`quantgrid.rental.reaping.findings` names only silent pods of ours, and
`quantgrid.rental.runpod.answers.lack` counts a pod without its volume as ended.
"""

import sys
import time
from pathlib import Path

import pytest

from quantgrid.rental.briefing import Briefing
from quantgrid.rental.lease import End, Lease, Phase
from quantgrid.rental.port import Name, Order
from quantgrid.rental.reaping import findings
from quantgrid.rental.spend import microusd
from rehearsal.runpod.containers import processes_of
from runpod_controller import LIMITS, TERMS, Controller
from runpod_rig import FACTOR, Rig

A = "a" * 64
_OVER = (Phase.SUCCESS, Phase.ERROR)
_PATIENT = TERMS._replace(stall_s=1000.0)
"""Silence alone ends no machine within a test: what is seen of it has to."""


@pytest.fixture
def controller(runpod: Rig, tmp_path: Path) -> Controller:
    """A controller whose machines work until they are ended."""
    made = Controller(runpod, tmp_path / "store")
    made.work_s = 1000.0
    return made


def _log(controller: Controller, pod: str) -> str:
    return (controller.rig.double.folder / "pods" / pod / "container.log").read_text()


def test_pod_is_gone_and_paid_as_told_when_its_job_is_done(controller: Controller) -> None:
    """CP 4.8: it ends itself with its own key, and the ledger covers the bill closely."""
    controller.work_s = 0.5
    controller.want(A)

    lease = controller.until(A, *_OVER)

    assert lease.phase is Phase.SUCCESS
    assert controller.rig.billing == []
    books = controller.register.books()
    cost = sum(microusd(c.microusd_per_h, c.begin_s, c.end_s) for c in books.costs)
    bill = controller.rig.double.show()["spent_usd"][controller.rig.account] * 1e6
    assert bill <= cost <= bill + 4 * 700_000 / 3600  # whole seconds, and two looks at its end


def test_second_start_works_not_again_when_the_end_of_the_first_failed(
    controller: Controller,
) -> None:
    """CP 4.7, 4.8, 4.12: a second start works no more; the end that fails is asked for again."""
    controller.work_s, controller.words = 0.3, ("hang",)
    controller.rig.double.act("options", restart_s=1.0)
    controller.rig.double.fault("deletePod", "html", status=502, nth=None)
    controller.want(A)
    lease = controller.until(A, Phase.TERMINATING)
    controller.until_so(lambda: controller.rig.pods[0]["starts"] >= 3, A)
    controller.until_so(lambda: any("does not end" in each for each in controller.told), A)
    assert controller.lease(A).phase is Phase.TERMINATING

    controller.rig.double.act("clear")
    ended = controller.until(A, *_OVER)

    assert ended.phase is Phase.SUCCESS
    assert _log(controller, lease.machine).count("works") == 1


def test_fresh_pod_is_ended_when_its_end_answered_404(controller: Controller) -> None:
    """CP 4.4, 4.10: cancelled while the pod hides, it is ended as soon as it can be."""
    controller.rig.double.act("options", hidden_s=50.0)
    controller.want(A)
    controller.until(A, Phase.BOOTING)
    controller.rounds.cancel(A)
    controller.until_so(lambda: len(controller.rig.requests("deletePod")) >= 1, A)
    assert controller.rig.requests("deletePod")[0]["status"] == 404
    assert len(controller.rig.billing) == 1

    lease = controller.until(A, *_OVER)

    assert lease.end is End.CANCELLED
    assert controller.rig.billing == []


def test_nothing_is_left_when_cancelled_inside_a_slow_create(controller: Controller) -> None:
    """CP 4.10, 4.27: the create ends after the wish for it, and its pod hides: found and ended."""
    controller.rig.double.act("options", hidden_s=90.0)  # 1.5 s of a watch
    controller.rig.double.fault("createPod", "slow", seconds=1.0)
    controller.want(A)
    controller.until(A, Phase.CREATING)

    controller.end(A)
    controller.until_so(lambda: controller.rig.billing == [], A)

    assert len(controller.rig.pods) == 1


def test_pod_is_ended_before_the_next_when_its_image_never_comes(controller: Controller) -> None:
    """CP 4.5, 4.6: there is never more than one, and each is ended and confirmed."""
    image = "example.invalid/none@sha256:" + "0" * 64
    controller.extra = {"image": image}
    controller.want(A, TERMS._replace(limits=LIMITS._replace(boot_s=1.0)))

    def is_third() -> bool:
        assert len(controller.rig.billing) <= 1
        return len(controller.rig.pods) >= 2

    controller.until_so(is_third, A)
    controller.end(A)


def test_next_pod_takes_over_when_somebody_deleted_the_first(controller: Controller) -> None:
    """CP 4.9, 4.24: no exit record is an interruption, never success; the next one resumes."""
    controller.want(A, _PATIENT)
    lease = controller.until(A, Phase.RUNNING)
    controller.rig.double.act("end", pod=lease.machine)

    controller.until_so(lambda: controller.lease(A).machine not in {"", lease.machine}, A)
    after = controller.until(A, Phase.RUNNING)

    assert after.interruptions == 1
    assert controller.rig.billing == [after.machine]
    controller.end(A)


@pytest.mark.parametrize("status", ["EXITED", pytest.param("ERROR", marks=pytest.mark.nightly)])
def test_next_pod_takes_over_when_a_host_is_lost(controller: Controller, status: str) -> None:
    """CP 4.24: a pod that stopped is still paid for: it is ended, and another one resumes."""
    controller.want(A, _PATIENT)
    lease = controller.until(A, Phase.RUNNING)
    controller.rig.double.act("lose", pod=lease.machine, status=status)

    controller.until_so(lambda: controller.lease(A).machine not in {"", lease.machine}, A)

    assert lease.machine not in controller.rig.billing
    controller.end(A)


def test_pod_is_found_when_the_configuration_names_other_things(
    controller: Controller, tmp_path: Path
) -> None:
    """CP 4.26: another volume and place in the file: the old pod is found and ended."""
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    rig = controller.rig
    rig.double.act("volume", id=f"new-{rig.account}", account=rig.account, dataCenter="US-KS-2")
    changed = rig.adapter(limits=LIMITS, volume=f"new-{rig.account}", regions=("US-KS-2",))
    later = Controller(rig, tmp_path / "store", by="later", platform=changed)
    later.dead.add("one")
    later.want(A)

    assert later.until(A, Phase.RUNNING).machine == lease.machine
    later.end(A)


def test_pod_is_not_reaped_when_it_beats_or_is_another_s(controller: Controller) -> None:
    """CP 4.19: a pod that no lease wants is left alone as long as it gives signs of life."""
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    rig, register = controller.rig, controller.register
    foreign = rig.platform.launch(rig.order())
    machines = controller.platform.machines(register.owner())
    everything = (*machines, *rig.platform.machines("0" * 8))

    def reapable(now_s: float) -> list[str]:
        signs = register.signs([lease.nonce])
        found = findings(everything, register.owner(), {}, signs, now_s)
        return [each.machine.id for each in found if each.is_reapable]

    assert reapable(time.time()) == []
    controller.end(A)
    rig.platform.stop(foreign.id)


def test_pod_is_replaced_when_it_came_without_its_volume(controller: Controller) -> None:
    """CP 4.28: a pod that would lose its work is ended before it works; a whole one takes over."""
    controller.rig.double.act("options", unmounted=True, boot_s=60.0)
    controller.want(A)
    controller.until(A, Phase.TERMINATING)
    controller.rig.double.act("options", unmounted=False, boot_s=1.0)

    lease = controller.until(A, Phase.RUNNING)

    first, *_, last = controller.rig.pods
    assert (first["starts"], last["id"]) == (0, lease.machine)
    assert controller.rig.billing == [lease.machine]
    controller.end(A)


class _Supervised(Controller):
    """A controller whose pods meet our own first process when they come back without a GPU."""

    def order(self, lease: Lease, name: Name) -> Order:
        order = super().order(lease, name)
        told = Briefing(
            store=str(self.folder),
            subject=lease.subject,
            nonce=name.nonce,
            deadline=lease.deadline_s,
            platform="runpod",
            id_variable="RUNPOD_POD_ID",
            ends_by="quantgrid.rental.runpod:from_environment",
            gpus=1,
            clock_factor=FACTOR,
        )
        choice = f"[ $RUNPOD_GPU_COUNT = 0 ] && exec {sys.executable} -m quantgrid supervise"
        return order._replace(
            command=("sh", "-c", f'{choice}; exec "$@"', "sh", *order.command),
            environment=(*order.environment, *told.environment()),
        )


def test_next_pod_takes_over_when_one_came_back_without_its_gpu(
    runpod: Rig, tmp_path: Path
) -> None:
    """It ends itself, or is ended on the platform's word when that takes long: another goes on."""
    controller = _Supervised(runpod, tmp_path / "store")
    controller.work_s = 1000.0
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    runpod.double.act("take-gpu", pod=lease.machine)

    controller.until_so(lambda: controller.lease(A).machine not in {"", lease.machine}, A)
    after = controller.until(A, Phase.RUNNING)

    assert after.interruptions == 1
    assert runpod.billing == [after.machine]
    controller.end(A)


def test_pod_ends_at_its_deadline_when_no_controller_lives(controller: Controller) -> None:
    """CP 4.29: the first process in the pod needs nobody to end it."""
    controller.want(A, TERMS._replace(run_s=0.5, limits=LIMITS._replace(boot_s=3.0)))
    lease = controller.until(A, Phase.BOOTING, Phase.RUNNING)

    controller.rig.double.wait(lease.machine, "TERMINATED")  # no round is made meanwhile

    assert controller.rig.billing == []
    assert controller.lease(A).phase in {Phase.BOOTING, Phase.RUNNING}


def test_job_goes_on_when_its_controller_is_gone_and_ends_when_asked_in_a_round(
    controller: Controller, tmp_path: Path
) -> None:
    """CP 4.30: leaving ends nothing; a later wish to end is confirmed, though a list is old."""
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    controller.close()
    assert list(processes_of(lease.machine))
    later = Controller(controller.rig, tmp_path / "store", by="later")
    later.dead.add("one")
    later.want(A)
    assert later.until(A, Phase.RUNNING).machine == lease.machine
    later.rig.double.fault("listPods", "stale", seconds=600.0)

    assert later.end(A).end is End.CANCELLED
