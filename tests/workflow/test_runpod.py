"""`snakemake --profile runpod`, typed exactly so, on the double: from raw text to the table."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import runpod_copy as pods
from quantgrid.rental.port import find_name
from quantgrid.rental.register import Register
from quantgrid.store import open_store
from rehearsal.runpod.double import Double
from s3_server import CREDENTIALS
from working_copy import SLOW, WHOLE, WorkingCopy, aim, lay

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
MONEY = ("--config", "money={max_usd_per_grid: 20, probe_max_usd: 3}")


@pytest.fixture
def double(tmp_path: Path) -> Iterator[Double]:
    """A platform of its own."""
    with pods.doubled(tmp_path / "runpod") as double:
        yield double


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Double]:
    """A platform of its own, slow enough for hours of work."""
    with pods.doubled(tmp_path / "runpod", SLOW) as double:
        yield double


def test_plan_needs_no_key_when_nothing_is_rented(tmp_path: Path) -> None:
    """`-n --profile runpod` plans the grid without a key, an account or a network."""
    copy = lay(tmp_path / "copy", light=True)
    pods.fill_in(copy)
    seen = pods.typed(copy, "-n", "--quiet", "rules", "host", environ={"RUNPOD_API_KEY": ""})
    assert "plan " in seen.text
    assert "make" in seen.plan


def test_grid_on_pods_is_that_of_this_machine_when_typed_as_documented(
    slow: Double, made: WorkingCopy, tmp_path: Path
) -> None:
    """14 cells equal local ones, every record was made in a pod, the bill is paid and covered."""
    copy = lay(tmp_path / "pods", light=True)
    pods.fill_in(copy, factor=SLOW)

    pods.typed(copy, environ=pods.environment(slow))

    assert pods.numbers(copy) == pods.numbers(made)
    pods.assert_whole(slow, copy)


@pytest.mark.nightly
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(("grid", "count", "light"), WHOLE)
def test_whole_grid_on_pods_is_that_of_this_machine_when_typed_as_documented(
    slow: Double,
    tmp_path: Path,
    whole: Callable[..., WorkingCopy],
    grid: str,
    count: int,
    light: bool,
) -> None:
    """All 105 cells of the demo; and 14 with their real science, from raw text to the table."""
    here, copy = whole(grid, light=light), lay(tmp_path / "pods", light=light)
    pods.fill_in(copy, grid, factor=SLOW)

    pods.typed(copy, environ=pods.environment(slow), timeout_s=2400)

    assert pods.numbers(copy, grid) == pods.numbers(here, grid)
    assert len(pods.numbers(copy, grid)) == count
    pods.assert_whole(slow, copy)


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_grid_on_pods_deposits_into_a_bucket_whose_key_only_the_platform_has(
    slow: Double, made: WorkingCopy, s3_address: str, tmp_path: Path
) -> None:
    """The key is a secret of the platform: no request, pod, log, file or object of ours has it."""
    slow.act("account", name="lab", secrets={name: CREDENTIALS[name] for name in KEYS})
    copy = lay(tmp_path / "pods", light=True)
    pods.fill_in(copy, factor=SLOW, secrets=[*KEYS])
    aim(copy, s3_address)

    pods.typed(copy, environ=pods.environment(slow), timeout_s=1500)

    assert pods.numbers(copy) == pods.numbers(made)
    store = open_store(s3_address, copy.root)
    pods.assert_whole(slow, copy, store)
    secret = CREDENTIALS[KEYS[1]]
    pods.assert_no_secret(slow, secret)
    created = slow.requests("createPod")
    assert all(f"RUNPOD_SECRET_{name}" in each["body"] for each in created for name in KEYS)
    kept = [path.read_bytes() for path in copy.root.rglob("*") if path.is_file()]
    kept += [store.get(key) for key in store.list("")]
    assert not any(secret.encode() in each for each in kept)


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_grid_goes_on_in_a_cpu_pod_when_this_computer_is_closed(
    slow: Double, tmp_path: Path
) -> None:
    """`launch --on runpod` rents a pod without a GPU, which rents the others with a secret."""
    slow.act("account", name="lab", secrets={"QG_RUNPOD_KEY": slow.key})
    copy = lay(tmp_path / "pods", light=True)
    coordinator = {"device": "cpu3c", "secrets": ["QG_RUNPOD_KEY"]}
    pods.fill_in(copy, "three", factor=SLOW, coordinator=coordinator)
    environ = pods.environment(slow)
    _, *settings = pods.words(copy, environ)[: -len(("snakemake", "--profile", "runpod"))]
    quantgrid = (sys.executable, "-m", "quantgrid")

    launched = copy.call("env", *settings, *quantgrid, "launch", "--on", "runpod", timeout_s=600)
    assert "This computer may be closed" in launched.text
    attached = copy.call("env", *settings, *quantgrid, "attach", timeout_s=900)

    assert "3/3 cells" in attached.text
    assert "restore 3, make 0" in pods.typed(copy, environ=environ).text
    assert slow.billing == []
    pods.assert_no_secret(slow, *slow.show()["keys"])


# -- money -----------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_nothing_but_probes_is_rented_before_the_clearance_when_pods_are_paid(
    slow: Double, tmp_path: Path
) -> None:
    """Compile and smoke here, a probe on a pod, a clearance; every other pod is younger than it."""
    copy = lay(tmp_path / "pods", light=True)
    pods.fill_in(copy, "three", bills_as="here", factor=SLOW)
    environ = pods.environment(slow) | {"LIGHT_WORK_S": "0.5"}  # a smoke kills what can save

    said = pods.typed(copy, *MONEY, environ=environ, timeout_s=1500)

    assert {"compile", "smoke", "probe", "budget", "clearance"} <= said.jobs.keys()
    (clearance,) = (copy / "receipts/screens").rglob("clearance.*.json")
    results = [json.loads(path.read_bytes()) for path in copy.root.glob("results/*/*/result.json")]
    assert len(results) == 3
    assert {each["clearance"]["fingerprint"] for each in results} == {clearance.name.split(".")[1]}
    cleared_s = clearance.stat().st_mtime
    leases = Register(pods.store_of(copy)).leases(ended=True)
    cells = {subject[:12]: each.lease.cell for subject, each in leases.items()}
    for pod in slow.pods:
        name = find_name(pod["body"]["name"])
        assert name is not None
        is_probe = cells[name.subject].startswith("probe")
        assert is_probe or _real_s(slow, pod["created_s"]) > cleared_s, cells[name.subject]
    assert any(cell.startswith("probe") for cell in cells.values())
    pods.assert_whole(slow, copy)


def _real_s(double: Double, created_s: float) -> float:
    """A moment of the double's clock, by a watch."""
    kept = double.show()["clock"]
    return float(kept["real_s"] + (created_s - kept["origin_s"]) / kept["factor"])


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_nothing_is_rented_when_a_paid_job_has_no_clearance(double: Double, tmp_path: Path) -> None:
    """Without an amount nothing is even asked; without a clearance the executor refuses the job."""
    copy = lay(tmp_path / "pods", light=True)
    pods.fill_in(copy, "three", bills_as="here")
    environ = pods.environment(double)
    said = pods.typed(copy, environ=environ, code=78)
    assert "(money.probe_max_usd)" in said.text
    assert double.requests() == []
    copy.edit("rules/corpus.smk", "plan.screens.prepare_input", "[]")

    said = pods.typed(copy, "corpus", *MONEY, environ=environ, code=1)

    assert "no machine is rented for prepare before the screens have passed" in said.text
    assert double.requests("createPod") == []
