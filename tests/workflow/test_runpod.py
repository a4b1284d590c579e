"""`snakemake --profile runpod`, typed exactly so, on the double: from raw text to the table."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quantgrid.rental.port import find_name
from quantgrid.rental.register import Register
from quantgrid.rental.spend import microusd
from quantgrid.store import Store, open_store
from rehearsal.runpod.double import Double
from runpod_rig import IMAGE
from working_copy import GRID, Outcome, WorkingCopy, lay

FACTOR = 60.0
VOLUME = "vol-of-the-lab"
TIMES = {"wall_s", "cpu_s", "platform"}


@pytest.fixture
def double(tmp_path: Path) -> Iterator[Double]:
    """A platform whose pods find this interpreter in their image."""
    made = Double(tmp_path / "runpod", FACTOR)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    made.act("image", reference=IMAGE, PATH=path, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    made.act("volume", id=VOLUME)
    made.act("options", boot_s=5.0, pull_s=5.0, per_minute=600)
    yield made
    made.close()


def fill_in(copy: WorkingCopy, grid: str = GRID, **changes: Any) -> None:
    """What a person writes into the configuration, and what a rehearsal needs beside it."""
    path = copy / "config/platforms/runpod.yaml"
    platform = yaml.safe_load(path.read_text())
    platform |= {"device": "cpu", "threads": 1, "durable": False, "clock_factor": FACTOR}
    platform |= {"bills_as": None, "grace_s": 120}
    mine = {"account": "lab", "volume": VOLUME, "image": IMAGE, "secrets": []}
    mine |= {"device": "", "num_devices": 0}  # a pod of a rehearsal has no GPU to prove
    platform["rented"] |= (
        mine | {"shares_disk": True, "machines": 2, "ahead": 8, "idle_s": 900} | changes
    )
    path.write_text(yaml.safe_dump(platform))
    copy.edit("profiles/runpod/profile.yaml", "status-checks: 15", "status-checks: 1")
    copy.edit("config/config.yaml", "grid: demo ", f"grid: {grid} ")


def typed(
    copy: WorkingCopy, *more: str, environ: dict[str, str], timeout_s: float = 280
) -> Outcome:
    """What a person types after `make setup`, whose links are in a folder of this test."""
    home = copy.root.parent / "home"
    folder = home / "snakemake"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "runpod").exists():
        (folder / "runpod").symlink_to(copy / "profiles/runpod")
    words = [f"XDG_CONFIG_HOME={home}", *(f"{k}={v}" for k, v in environ.items())]
    words += [f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"]
    typed = ("snakemake", "--profile", "runpod", *more)
    return copy.call("env", *words, *typed, timeout_s=timeout_s)


def numbers(copy: WorkingCopy, grid: str = GRID) -> list[dict[str, str]]:
    """The table without what depends on time and place."""
    with (copy / f"results/{grid}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["platform"] for row in rows} in ({"runpod"}, {"local"})
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def test_plan_needs_no_key_when_nothing_is_rented(tmp_path: Path) -> None:
    """`-n --profile runpod` plans the grid without a key, an account or a network."""
    copy = lay(tmp_path / "copy", light=True)
    fill_in(copy)
    seen = typed(copy, "-n", "--quiet", "rules", "host", environ={"RUNPOD_API_KEY": ""})
    assert "plan " in seen.text
    assert "make" in seen.plan


def test_grid_on_pods_is_that_of_this_machine_when_typed_as_documented(
    double: Double, made: WorkingCopy, tmp_path: Path
) -> None:
    """Numbers equal local ones, every record was made in a pod, the bill is paid and covered."""
    copy = lay(tmp_path / "pods", light=True)
    fill_in(copy)
    environ = {"RUNPOD_API_KEY": double.key, "QG_RUNPOD_URL": f"{double.url}/v2"}

    typed(copy, environ=environ)

    assert numbers(copy) == numbers(made)
    _assert_whole(double, copy)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_demo_on_pods_is_that_of_this_machine_when_typed_as_documented(
    double: Double, tmp_path: Path
) -> None:
    """All 105 cells of the demo, with their real science, from raw text to the table."""
    here, copy = (lay(tmp_path / name, light=False) for name in ("here", "pods"))
    here.snakemake(grid="demo", timeout_s=3000)
    fill_in(copy, "demo")
    environ = {"RUNPOD_API_KEY": double.key, "QG_RUNPOD_URL": f"{double.url}/v2"}

    typed(copy, environ=environ, timeout_s=4000)

    assert numbers(copy, "demo") == numbers(here, "demo")
    assert len(numbers(copy, "demo")) == 105
    _assert_whole(double, copy)


def _assert_whole(double: Double, copy: WorkingCopy) -> None:
    assert double.billing == []
    pods = {each["id"]: each for each in double.pods}
    _assert_made_in(pods, copy)
    _assert_paid(double, copy)
    _assert_no_secret(double)


def _cell(store: Store, job: str) -> str:
    return str(json.loads(store.get(f"rental/tasks/{job}.000001"))["cell"])


def _assert_made_in(pods: dict[str, Any], copy: WorkingCopy) -> None:
    """Each task's end names a pod and its nonce; the corpus was sealed by another than made it."""
    store = open_store(str(copy / "archive"), copy.root)
    ends = [json.loads(store.get(key)) for key in store.list("rental/signs") if ".done." in key]
    made_by = {_cell(store, each["job"]): each["machine"] for each in ends}
    names = {find_name(each["body"]["name"]) for each in pods.values()}
    assert {each["nonce"] for each in ends} <= {name.nonce for name in names if name}
    assert set(made_by.values()) <= pods.keys()
    assert len({made_by[cell] for cell in made_by if cell.endswith("of shakespeare")}) == 2


def _assert_paid(double: Double, copy: WorkingCopy) -> None:
    """What the ledger says was spent covers the bill, and little more."""
    books = Register(open_store(str(copy / "archive"), copy.root)).books()
    cost = sum(microusd(each.microusd_per_h, each.begin_s, each.end_s) for each in books.costs)
    bill = double.show()["spent_usd"]["lab"] * 1e6
    per_s = max(each.microusd_per_h for each in books.costs) / 3600
    assert {each.nonce for each in books.promises} == {each.nonce for each in books.costs}
    assert bill <= cost <= bill + 15 * per_s * len(books.costs)  # intent before, looks after


def _assert_no_secret(double: Double) -> None:
    """No key is in what the double was sent, kept or printed by its pods."""
    keys = list(double.show()["keys"])
    texts = [path.read_text() for path in double.folder.rglob("*.log")]
    texts += [(double.folder / "requests.jsonl").read_text()]
    assert [key for key in keys if any(key in text for text in texts)] == []
