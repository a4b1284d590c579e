"""`snakemake --profile modal`, typed exactly so: a grid in sandboxes, from text to the table."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import modal_parts as parts
from quantgrid.rental.register import Register
from quantgrid.store import open_store
from rehearsal.modal.double import Double
from working_copy import CELLS, PROJECT, WorkingCopy, lay

FACTOR = 30.0


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double for all tests here."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), FACTOR) as double:
        yield double


def _platform(double: Double, **changes: object) -> dict[str, object]:
    """The file of the platform, for a rehearsal of it."""
    whole: dict[str, object] = yaml.safe_load((PROJECT / "config/platforms/modal.yaml").read_text())
    rented, options = whole["rented"], whole["rented"]["options"]  # type: ignore[index]
    whole |= {"device": "cpu", "threads": 1, "clock_factor": FACTOR, "bills_as": None}
    price = {"usd_per_h": parts.PRICES["cpu"] / 1e6, "source": "test", "date": "2026-11-30"}
    options |= {"candidates": [price], "boot_s": 60, "create_s": 60, "visible_s": 0.5}
    options["factor"] = double.factor
    rented |= {
        "account": "lab/main",
        "image": parts.IMAGE,
        "volume": parts.made_volume(parts.connected(double), "quantgrid"),
        "device": "",
        "num_devices": 0,
        "secrets": [],
        "shares_disk": True,
        "machines": 3,
        "idle_s": 240,
        **changes,
    }
    return whole


def lay_rented(root: Path, double: Double, **changes: object) -> WorkingCopy:
    """A working copy whose profile `modal` is linked as `make setup` does it."""
    copy = lay(root, light=True)
    (copy / "config/platforms/modal.yaml").write_text(yaml.safe_dump(_platform(double, **changes)))
    copy.edit("config/config.yaml", "grid: demo", "grid: smoke")
    copy.edit("profiles/modal/profile.yaml", "status-checks: 5", "status-checks: 1")
    (root / ".ci").mkdir()
    shutil.copy(PROJECT / ".ci/link-profiles", root / ".ci")
    return copy


def environment_of(copy: WorkingCopy, double: Double, workspace: str = "lab") -> dict[str, str]:
    """What makes somebody of a workspace of the process that is started."""
    return (
        os.environ
        | double.environment(workspace)
        | {
            "XDG_CONFIG_HOME": str(copy / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
    )


def rehearse(copy: WorkingCopy, environment: dict[str, str]) -> dict[str, str]:
    """The same environment, once `--profile modal` works there as typed."""
    subprocess.run([copy / ".ci/link-profiles"], env=environment, check=True, capture_output=True)
    return environment


def typed(
    copy: WorkingCopy, environment: dict[str, str], *more: str, timeout_s: float = 280
) -> subprocess.CompletedProcess[str]:
    """What a person types."""
    return subprocess.run(
        ["snakemake", "--profile", "modal", *more],  # noqa: S607 - as a person types it
        cwd=copy.root,
        env=rehearse(copy, environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def _numbers(copy: WorkingCopy, platform: str) -> dict[str, object]:
    """What each cell's record says, but for where and when it was made."""
    found = {}
    for path in sorted((copy / "results").rglob("result.json")):
        record = json.loads(path.read_text())
        assert record["platform"]["name"] == platform
        found[record["cell"]] = [record[key] for key in ("fingerprint", "spec", "results", "blobs")]
    return found


def _told(copy: WorkingCopy) -> float:
    """What the register says that all machines did cost, in micro-dollars."""
    register = Register(open_store(str(copy / "archive"), copy.root))
    assert register.leases() == {}
    return sum(span.cost for span in register.books().spent())


def test_grid_is_the_same_in_sandboxes_as_on_a_desk(
    tmp_path: Path, double: Double, made: WorkingCopy
) -> None:
    """From raw text to the table: numbers equal a desk's, nothing bills, and the money is told."""
    copy = lay_rented(tmp_path / "rented", double)
    before = double.bill()

    done = typed(copy, environment_of(copy, double))

    assert done.returncode == 0, done.stdout[-6000:]
    assert len(_numbers(copy, "modal")) == CELLS
    assert _numbers(copy, "modal") == _numbers(made, "local")
    assert (copy / "results/smoke.csv").exists()
    assert double.living() == []
    assert 0 < double.bill() - before <= _told(copy)
    platforms = {
        json.loads(p.read_text())["platform"]["name"]
        for p in (copy / "results").rglob("result.json")
    }
    assert platforms == {"modal"}


def test_plan_needs_neither_token_nor_service(tmp_path: Path, double: Double) -> None:
    """`-n` asks nobody: the SDK is not even loaded."""
    copy = lay_rented(tmp_path / "rented", double)
    environment = {k: v for k, v in environment_of(copy, double).items() if "MODAL" not in k}
    before = double.calls()

    done = typed(copy, environment, "-n", "--quiet", "rules", "host")

    assert done.returncode == 0, done.stdout
    assert double.calls() == before


def test_other_workspace_is_refused_before_any_create(tmp_path: Path, double: Double) -> None:
    """A twin volume of one name elsewhere: both identities are told, and nothing is created."""
    copy = lay_rented(tmp_path / "rented", double)
    twin = parts.made_volume(parts.connected(double, "home"), "quantgrid")
    before = len(double.boxes())

    done = typed(copy, environment_of(copy, double, "home"))

    assert done.returncode != 0
    assert all(each in done.stdout for each in ("lab/main", "home/main", twin)), done.stdout[-3000:]
    assert len(double.boxes()) == before


def _doctor(
    copy: WorkingCopy, environment: dict[str, str]
) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of a doctor and its findings by subject."""
    words = ["-m", "quantgrid", "doctor", "--profile", "modal", "--json"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=copy.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, {each["subject"]: each for each in json.loads(done.stdout)}


def test_doctor_names_each_line_that_is_missing(tmp_path: Path, double: Double) -> None:
    """Account, volume, secrets, price and image: seen and expected, and nothing is created."""
    copy = lay_rented(tmp_path / "rented", double)
    environment = environment_of(copy, double)
    before = len(double.boxes())

    code, found = _doctor(copy, environment)

    refused = {subject for subject, each in found.items() if each["level"] == "refuse"}
    assert refused == {"image"}  # that of a rehearsal is none
    assert code == 78
    assert found["account"]["seen"] == "lab/main"
    assert "$0.19 an hour" in found["prices"]["seen"]

    wrong = {"account": "lab/other", "volume": "vo-gone", "secrets": ["no-such"], "device": "H100"}
    bad = _platform(double, **wrong)
    (copy / "config/platforms/modal.yaml").write_text(yaml.safe_dump(bad))
    _, found = _doctor(copy, environment)
    refused = {subject for subject, each in found.items() if each["level"] == "refuse"}
    assert refused == {"account", "volume", "secrets", "prices", "image"}
    assert "pins lab/other" in found["account"]["seen"]
    assert "pins vo-gone" in found["volume"]["seen"]
    assert "'quantgrid' has the id vo-" in found["volume"]["seen"]
    assert len(double.boxes()) == before
