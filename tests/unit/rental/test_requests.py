"""From a job of Snakemake to what a machine has to do."""

import json
from pathlib import Path

import pytest

from quantgrid.errors import BudgetRefusal, ConfigRefusal
from quantgrid.rental import bundle
from quantgrid.rental.facts import Facts
from quantgrid.rental.reach import connect, refuse_unreachable
from quantgrid.rental.requests import Job, Requests, refuse_uncleared
from quantgrid.store.folder import FolderStore

FACTS = Facts("plain", "plain", "lab", "image", "ID", device="big", num_devices=1)
STAGE = {"name": "weights", "fingerprint": "ab" * 32}
SPEC = {"cell": "n0/none", "corpus": "text", "recipe": "cd" * 32, "stages": [STAGE]}
JOB = Job(
    rule="base",
    command="exec python -m quantgrid run",
    inputs=("receipts/trunk.json",),
    outputs=("receipts/cell.json",),
    log="logs/cell.log",
    spec=json.dumps(SPEC),
    resources={},
)
CLEARANCE = f"receipts/screens/demo/clearance.{'ef' * 32}.json"


@pytest.fixture
def requests(tmp_path: Path) -> Requests:
    """Requests of a small working copy with a receipt and a sentinel."""
    code, store = tmp_path / "code", FolderStore(tmp_path / "store")
    for name in (
        "Snakefile",
        "receipts/trunk.json",
        f"receipts/corpus/text/sealed.{'cd' * 32}.json",
    ):
        path = code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return Requests(code, code, store, FACTS, "demo", ())


def test_an_order_has_sources_inputs_and_what_vouches_for_the_corpus(
    requests: Requests, tmp_path: Path
) -> None:
    """A machine finds the working copy, the receipts of the job and the sentinel, by digest."""
    request = requests.request(JOB)
    order = request.order()

    bundle.unpack(requests.store, order.bundle, tmp_path / "there")
    bundle.fetch_files(requests.store, tmp_path / "there", order.inputs)
    assert (tmp_path / "there/Snakefile").read_text() == "Snakefile"
    assert (tmp_path / "there/receipts/trunk.json").exists()
    assert (tmp_path / f"there/receipts/corpus/text/sealed.{'cd' * 32}.json").exists()
    assert order.links == (f"state/n0/none/weights.{'ab' * 8}.link.json",)
    assert (request.cell, request.grid) == ("n0/none", "demo")


def test_resources_of_a_cell_make_its_kind(requests: Requests) -> None:
    """Device, count, money, time and what only adapters know come from the resources."""
    given = {"gpu": 2, "gpu_model": "H200", "max_usd": 3, "disk_gb": 40, "cloud": "SECURE"}
    kind = requests.request(JOB._replace(resources={**given, "runtime": 60})).kind

    assert (kind.device, kind.num_devices, kind.max_microusd) == ("H200", 2, 3_000_000)
    assert (kind.run_s, kind.options) == (3600.0, (("cloud", "SECURE"), ("disk_gb", "40")))
    assert requests.request(JOB).kind == requests.request(JOB._replace(outputs=("x/y",))).kind
    assert requests.request(JOB._replace(resources={"own_machine": 1})).kind.alone


def test_a_job_without_a_clearance_is_refused_where_it_costs() -> None:
    """No screen, no machine; a probe is what makes a clearance, and needs none."""
    with pytest.raises(BudgetRefusal, match="before the screens have passed"):
        refuse_uncleared(JOB, is_paid=True)
    refuse_uncleared(JOB, is_paid=False)
    refuse_uncleared(JOB._replace(inputs=(CLEARANCE,)), is_paid=True)
    refuse_uncleared(JOB._replace(rule="probe"), is_paid=True)


@pytest.mark.parametrize(
    "archive", ["archive", "/data/archive", "s3://b/p?endpoint_url=http://127.0.0.1:8333"]
)
def test_an_archive_that_no_machine_reaches_is_refused(archive: str) -> None:
    """A folder of this machine, or a server on it, is nowhere else."""
    with pytest.raises(ConfigRefusal, match="cannot reach this archive"):
        refuse_unreachable(FACTS, archive)
    refuse_unreachable(FACTS._replace(shares_disk=True), archive)
    refuse_unreachable(FACTS, "s3://bucket/prefix")


def test_an_adapter_that_is_not_installed_is_named() -> None:
    """The message says which package is missing, and not where Python looked."""
    with pytest.raises(ConfigRefusal, match="snakemake_executor_plugin_nowhere"):
        connect(FACTS._replace(adapter="nowhere"))


def test_a_job_is_another_when_it_is_asked_for_elsewhere(requests: Requests) -> None:
    """What one platform prepared on its volume another one must not seal on its own."""
    there = requests.request(JOB).job
    assert requests.request(JOB).job == there
    for other in ({"name": "other"}, {"account": "else"}, {"volume": "v-2"}):
        requests.facts = FACTS._replace(**other)
        assert requests.request(JOB).job != there


@pytest.mark.parametrize(
    ("rule", "output", "cell"),
    [
        ("seal", f"receipts/corpus/text/sealed.{'cd' * 32}.json", "seal of text"),
        ("probe", f"receipts/screens/probe/n0-rtn.{'cd' * 32}.json", "probe of n0-rtn"),
    ],
)
def test_a_job_without_a_cell_is_told_by_what_it_makes(
    requests: Requests, rule: str, output: str, cell: str
) -> None:
    """A person reads the corpus, or what is measured, in leases and refusals."""
    assert requests.request(JOB._replace(rule=rule, spec="", outputs=(output,))).cell == cell
