"""A working copy whose profile `runpod` rents pods of the double, as a person sets it up."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from quantgrid.rental.port import find_name
from quantgrid.rental.register import Register
from quantgrid.store import Store, open_store
from rehearsal.runpod.double import Double
from runpod_rig import IMAGE
from working_copy import GRID, Outcome, WorkingCopy

FACTOR = 60.0
VOLUME = "vol-of-the-lab"
TIMES = {"wall_s", "cpu_s", "platform"}


@contextmanager
def doubled(folder: Path, factor: float = FACTOR) -> Iterator[Double]:
    """A platform whose pods find this interpreter in their image."""
    double = Double(folder, factor)
    try:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        double.act("image", reference=IMAGE, PATH=path, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        double.act("volume", id=VOLUME)
        double.act("options", boot_s=5.0, pull_s=5.0, per_minute=600)
        yield double
    finally:
        double.close()


def fill_in(
    copy: WorkingCopy,
    grid: str = GRID,
    *,
    bills_as: str | None = None,
    factor: float = FACTOR,
    **own: Any,
) -> None:
    """What a person writes into the configuration, and what a rehearsal needs beside it."""
    path = copy / "config/platforms/runpod.yaml"
    platform = yaml.safe_load(path.read_text())
    platform |= {"device": "cpu", "threads": 1, "durable": False, "clock_factor": factor}
    platform |= {"bills_as": bills_as, "grace_s": 120}
    mine = {"account": "lab", "volume": VOLUME, "image": IMAGE, "secrets": []}
    mine |= {"device": "", "num_devices": 0}  # a pod of a rehearsal has no GPU to prove
    mine |= {"shares_disk": True, "machines": 2, "ahead": 8, "idle_s": 900}
    platform["rented"] |= mine | own
    platform["rented"]["options"]["bill_s"] = 0.0
    path.write_text(yaml.safe_dump(platform))
    copy.edit("profiles/runpod/profile.yaml", "status-checks: 15", "status-checks: 1")
    copy.edit("config/config.yaml", "grid: demo ", f"grid: {grid} ")


def environment(double: Double) -> dict[str, str]:
    """What leads a person's calls to the double, as its account."""
    return {"RUNPOD_API_KEY": double.key, "QG_RUNPOD_URL": f"{double.url}/v2"}


def words(copy: WorkingCopy, environ: dict[str, str], *more: str) -> list[str]:
    """What a person types after `make setup`, whose links are in a folder of this test."""
    home = copy.root.parent / f"home-{copy.root.name}"
    folder = home / "snakemake"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "runpod").exists():
        (folder / "runpod").symlink_to(copy / "profiles/runpod")
    given = {"XDG_CONFIG_HOME": home, **environ}
    given["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return ["env", *(f"{k}={v}" for k, v in given.items()), "snakemake", *_PROFILE, *more]


_PROFILE = ("--profile", "runpod")


def typed(
    copy: WorkingCopy,
    *more: str,
    environ: dict[str, str],
    code: int | None = 0,
    timeout_s: float = 560,
) -> Outcome:
    """How that ends."""
    return copy.call(*words(copy, environ, *more), code=code, timeout_s=timeout_s)


def numbers(copy: WorkingCopy, grid: str = GRID) -> list[dict[str, str]]:
    """The table without what depends on time and place."""
    with (copy / f"results/{grid}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["platform"] for row in rows} in ({"runpod"}, {"local"})
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def store_of(copy: WorkingCopy) -> Store:
    """The store of a working copy whose archive is a folder of it."""
    return open_store(str(copy / "archive"), copy.root)


def assert_whole(double: Double, copy: WorkingCopy, store: Store | None = None) -> None:
    """Nothing bills, every task ran in a pod, all is paid, and no key was ever seen."""
    store = store or store_of(copy)
    assert double.billing == []
    pods = {each["id"]: each for each in double.pods}
    _assert_made_in(pods, store)
    _assert_paid(double, store)
    assert_no_secret(double, *double.show()["keys"])


def _cell(store: Store, job: str) -> str:
    return str(json.loads(store.get(f"rental/tasks/{job}.000001"))["cell"])


def _assert_made_in(pods: dict[str, Any], store: Store) -> None:
    """Each task's end names a pod and its nonce; the corpus was sealed by another than made it."""
    ends = [json.loads(store.get(key)) for key in store.list("rental/signs") if ".done." in key]
    made_by = {_cell(store, each["job"]): each["machine"] for each in ends}
    names = {find_name(each["body"]["name"]) for each in pods.values()}
    assert {each["nonce"] for each in ends} <= {name.nonce for name in names if name}
    assert set(made_by.values()) <= pods.keys()
    assert len({made_by[cell] for cell in made_by if cell.endswith("of shakespeare")}) == 2


def _assert_paid(double: Double, store: Store) -> None:
    """What the ledger says was spent is the bill, to a micro-dollar a pod."""
    books = Register(store).books()
    spent = sum(span.cost for span in books.spent())
    bill = double.show()["spent_usd"]["lab"] * 1e6
    assert {each.nonce for each in books.promises} == {each.nonce for each in books.costs}
    assert abs(spent - bill) <= len(books.costs), books.unbilled()


def assert_no_secret(double: Double, *keys: str) -> None:
    """No key is in what the double was sent, kept or printed by its pods."""
    texts = [path.read_text() for path in double.folder.rglob("*.log")]
    texts += [(double.folder / "requests.jsonl").read_text()]
    texts += [json.dumps(pod["body"]) for pod in double.pods]
    assert [key for key in keys if any(key in text for text in texts)] == []
