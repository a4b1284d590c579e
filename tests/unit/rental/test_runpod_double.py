"""The double of RunPod is as strict, as slow and as unkind as the platform is reported to be."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rehearsal.runpod.containers import processes_of
from rehearsal.runpod.double import Double
from runpod_rig import GPU, IMAGE, Rig

POD: dict[str, Any] = {"name": "n", "image": IMAGE, "gpu": {"id": GPU, "count": 1}}


def ask(rig: Rig, method: str, path: str, body: Any = None, agent: str = "test") -> tuple[int, Any]:
    """Status and value of a reply, by a client that is not ours."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {rig.key}", "User-Agent": agent}
    request = urllib.request.Request(  # noqa: S310
        f"{rig.double.url}/v2{path}", data, headers, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=180) as reply:  # noqa: S310
            return reply.status, json.loads(reply.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"bogus": 1}, 422, "bogus"),
        ({"gpu": {"id": GPU, "count": 1, "x": 1}}, 422, "x"),
        ({"gpu": {"id": GPU}}, 400, "no longer any instances"),
        ({"gpu": {"id": "none such", "count": 1}}, 400, "no longer any instances"),
        ({"cpu": {"id": "cpu3c", "vcpuCount": 2}}, 400, "exactly one"),
        ({"env": {f"V{i}": "" for i in range(51)}}, 400, "variables"),
        ({"env": {"V": "x" * 102_400}}, 413, "bytes"),
        ({"mounts": {"network": [{"volumeId": "no", "path": "/w"}]}}, 404, "not found"),
        ({"registry": "no"}, 400, "registry"),
    ],
)
def test_create_is_refused_when_the_vendor_would_refuse_it(
    runpod: Rig, change: dict[str, Any], status: int, words: str
) -> None:
    """Unknown fields, broken rules and missing numbers are refused as the document says."""
    seen, problem = ask(runpod, "POST", "/pods", POD | change)
    assert seen == status
    assert words in json.dumps(problem)


def test_agent_is_turned_away_when_it_is_generic(runpod: Rig) -> None:
    """The vendor's network knows the agents of common libraries."""
    assert ask(runpod, "GET", "/pods", agent="Python-urllib/3.12") == (403, "error code: 1010")


def test_create_is_refused_when_an_hour_cannot_be_paid(runpod: Rig) -> None:
    """402 comes before the money is gone."""
    runpod.double.act("account", name=runpod.account, balance_usd=0.5)
    assert ask(runpod, "POST", "/pods", POD)[0] == 402


def test_pods_end_when_the_money_does(runpod: Rig) -> None:
    """Without money a pod with a network volume is stopped, any other is ended with its data."""
    bare = runpod.platform.launch(runpod.order(volume="")).id
    kept = runpod.platform.launch(runpod.order()).id
    runpod.double.act("account", name=runpod.account, balance_usd=0.0)
    runpod.double.wait(bare, "TERMINATED")
    runpod.double.wait(kept, "EXITED")
    runpod.platform.stop(kept)


def test_container_starts_again_when_its_first_process_ends(runpod: Rig) -> None:
    """The pod stays RUNNING and is paid for; its disk is new each time, its volume is not."""
    words = (
        "sh",
        "-c",
        "test -e mark && echo dirty >> /workspace/n; echo x >> /workspace/n; > mark",
    )
    machine = runpod.launch(*words)
    count = runpod.double.folder / "volumes" / runpod.volume / "n"
    for _ in range(200):
        runpod.double.advance(10)
        if count.exists() and len(count.read_text().split()) >= 3:
            break
    assert set(count.read_text().split()) == {"x"}
    assert runpod.double.show()["pods"][machine.id]["status"] == "RUNNING"
    runpod.platform.stop(machine.id)


def test_everything_in_a_pod_ends_when_it_is_deleted(runpod: Rig) -> None:
    """A process in a session of its own, deaf to SIGTERM, ends as well."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    machine = runpod.launch("sh", "-c", f'setsid python -c "{deaf}" & exec sleep 1000')
    runpod.platform.stop(machine.id)
    for _ in range(500):
        if not list(processes_of(machine.id)):
            break
        runpod.double.act("clear")  # time for the double to go on
    assert not list(processes_of(machine.id))


def test_pod_stays_and_is_paid_for_when_its_image_cannot_be_pulled(runpod: Rig) -> None:
    """A wrong image is no error of the create, and no end."""
    machine = runpod.platform.launch(runpod.order(image="example.invalid/no@sha256:" + "0" * 64))
    runpod.double.wait(machine.id, "STARTING")
    runpod.double.advance(5000)
    assert runpod.double.show()["pods"][machine.id]["status"] == "STARTING"
    assert "manifest unknown" in runpod.platform.logs(machine.id, 10)
    runpod.platform.stop(machine.id)


def test_pods_live_on_when_the_double_is_killed(tmp_path: Path) -> None:
    """A crash of the platform's interface ends no pod, and its state is as it was."""
    double = Double(tmp_path / "own", 60.0)
    try:
        double.act("image", reference=IMAGE, PATH="/usr/bin:/bin")
        double.act("options", boot_s=0.0, pull_s=0.0)
        rig = Rig(double, "lab")
        machine = rig.launch()
        before = list(processes_of(machine.id))
        double.kill()
        assert list(processes_of(machine.id)) == before
        double.start()
        seen = rig.platform.observe(machine.id)
        assert seen is not None
        assert seen.state == "running"
        rig.platform.stop(machine.id)
        assert rig.billing == []
    finally:
        double.close()


def test_view_is_old_when_the_volume_is_frozen(runpod: Rig) -> None:
    """A frozen view shows what was there at its start; what is written to it reaches the volume."""
    runpod.double.act("volume", id=runpod.volume, account=runpod.account, is_frozen=True)
    volume = runpod.double.folder / "volumes" / runpod.volume
    volume.mkdir(parents=True)
    (volume / "old").write_text("1")
    words = ("sh", "-c", "cat /workspace/go 2> /workspace/err; > /workspace/mine; sleep 1000")
    machine = runpod.launch(*words)
    (volume / "later").write_text("2")
    for _ in range(500):
        if (volume / "mine").exists():
            break
        runpod.double.advance(1)
    view = runpod.double.folder / "pods" / machine.id / "network"
    assert (view / "old").exists()
    assert not (view / "later").exists()
    assert (volume / "later").exists()
    runpod.platform.stop(machine.id)


def test_bill_is_price_times_time(runpod: Rig) -> None:
    """An hour of one GPU costs its price and the disk's, by the API's own bill."""
    machine = runpod.platform.launch(runpod.order())
    runpod.double.advance(60 * 3600)  # an hour of a watch
    runpod.platform.stop(machine.id)
    _, bill = ask(runpod, "GET", f"/billing/pods?podId={machine.id}&bucketSize=day")
    totals = bill["metadata"]["totals"]
    assert totals["gpuAmount"] == pytest.approx(0.69, rel=0.01)
    assert totals["totalAmount"] == pytest.approx(runpod.double.show()["spent_usd"][runpod.account])
