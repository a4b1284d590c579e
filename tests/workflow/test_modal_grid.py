"""`snakemake --profile modal`, typed exactly so: a grid in sandboxes, from text to the table."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import modal_copy as boxes
import modal_parts as parts
from modal_copy import environment_of, lay_rented, typed
from quantgrid.store import open_store
from rehearsal.modal.double import Double
from s3_server import CREDENTIALS
from working_copy import CELLS, SLOW, WHOLE, WorkingCopy, aim


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double for all tests here."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), boxes.FACTOR) as double:
        yield double


def test_grid_is_the_same_in_sandboxes_as_on_a_desk(
    tmp_path: Path, double: Double, made: WorkingCopy
) -> None:
    """From raw text to the table: numbers equal a desk's, nothing bills, and the money is told."""
    copy = lay_rented(tmp_path / "rented", double)
    before = double.bill()

    done = typed(copy, environment_of(copy, double))

    assert done.returncode == 0, done.stdout[-6000:]
    assert len(boxes.numbers(copy, "modal")) == CELLS
    assert boxes.numbers(copy, "modal") == boxes.numbers(made, "local")
    assert (copy / "results/smoke.csv").exists()
    assert double.living() == []
    assert boxes.told(copy) == pytest.approx(double.bill() - before, abs=len(double.boxes()))
    platforms = {
        json.loads(p.read_text())["platform"]["name"]
        for p in (copy / "results").rglob("result.json")
    }
    assert platforms == {"modal"}


@pytest.mark.nightly
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(("grid", "count", "light"), WHOLE)
def test_whole_grid_is_the_same_in_sandboxes_as_on_a_desk(
    tmp_path: Path, whole: Callable[..., WorkingCopy], grid: str, count: int, light: bool
) -> None:
    """All 105 cells of the demo; and 14 with their real science, from raw text to the table."""
    here = whole(grid, light=light)
    with parts.doubled(tmp_path / "modal", SLOW) as double:
        copy = lay_rented(tmp_path / "rented", double, grid, light=light)

        done = typed(copy, environment_of(copy, double), timeout_s=2400)

        assert done.returncode == 0, done.stdout[-6000:]
        assert len(boxes.numbers(copy, "modal")) == count
        assert boxes.numbers(copy, "modal") == boxes.numbers(here, "local")
        assert double.living() == []
        assert boxes.told(copy) == pytest.approx(double.bill(), abs=len(double.boxes()))


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_grid_in_sandboxes_deposits_into_a_bucket_whose_key_only_modal_has(
    tmp_path: Path, double: Double, made: WorkingCopy, s3_address: str
) -> None:
    """The key is a secret of Modal, by its name: no sandbox, log, file or object of ours has it."""
    keys = {name: CREDENTIALS[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    double.put("secrets", {"lab/main/quantgrid-archive": keys})
    copy = lay_rented(tmp_path / "rented", double, secrets=["quantgrid-archive"])
    aim(copy, s3_address)

    done = typed(copy, environment_of(copy, double), timeout_s=1500)

    assert done.returncode == 0, done.stdout[-6000:]
    assert boxes.numbers(copy, "modal") == boxes.numbers(made, "local")
    assert double.living() == []
    assert double.boxes()[-1]["secrets"] == ["lab/main/quantgrid-archive"]
    store = open_store(s3_address, copy.root)
    kept = [path.read_bytes() for path in copy.root.rglob("*") if path.is_file()]
    kept += [store.get(key) for key in store.list("")]
    kept += [path.read_bytes() for path in _files_of(double)]
    assert not any(keys["AWS_SECRET_ACCESS_KEY"].encode() in each for each in kept)


def _files_of(double: Double) -> list[Path]:
    """All that the double keeps, and its sandboxes wrote, but for the secrets that it was given."""
    found = [path for path in double.root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in found if path.name != "secrets.json"]


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_grid_goes_on_in_a_cpu_sandbox_when_this_computer_is_closed(
    tmp_path: Path, double: Double
) -> None:
    """`launch --on modal` rents a machine without a GPU, which rents the others and folds."""
    copy = lay_rented(
        tmp_path / "rented",
        double,
        "three",
        coordinator={"device": "", "secrets": ["quantgrid-modal"]},
    )
    double.put("secrets", {"lab/main/quantgrid-modal": double.environment("lab")})
    environment, before = boxes.rehearse(copy, environment_of(copy, double)), len(double.boxes())
    quantgrid = (sys.executable, "-m", "quantgrid")

    launched = boxes.said(copy, environment, *quantgrid, "launch", "--on", "modal", timeout_s=600)
    assert "This computer may be closed" in launched.stdout, launched.stdout[-3000:]
    (first, *_) = double.boxes()[before:]
    attached = boxes.said(copy, environment, *quantgrid, "attach", timeout_s=900)

    assert "3/3 cells" in attached.stdout, attached.stdout[-6000:]
    assert first["device"] == "cpu"
    assert {box["app"] for box in double.boxes()[before:]} == {first["app"]}
    assert len(double.boxes()[before:]) >= 3  # its own, and those that prepare and seal
    folded = typed(copy, environment)
    assert "restore 3, make 0" in folded.stdout, folded.stdout[-3000:]
    assert len(boxes.numbers(copy, "modal")) == 3
    assert double.living() == []
    assert boxes.told(copy) > 0


def test_plan_needs_neither_token_nor_service(tmp_path: Path, double: Double) -> None:
    """`-n` asks nobody: the SDK is not even loaded."""
    copy = lay_rented(tmp_path / "rented", double)
    environment = {k: v for k, v in environment_of(copy, double).items() if "MODAL" not in k}
    before = double.calls()

    done = typed(copy, environment, "-n", "--quiet", "rules", "host")

    assert done.returncode == 0, done.stdout
    assert double.calls() == before


WITHOUT = """
import importlib.metadata as metadata, sys
whole = metadata.version
def version(name):
    if name == "modal" and {seen!r} == "none":
        raise metadata.PackageNotFoundError(name)
    return {seen!r} if name == "modal" else whole(name)
metadata.version, sys.modules["modal"] = version, None
"""
"""A Python in which the SDK cannot be imported, and is said to be of some version, or none."""


@pytest.mark.nightly
@pytest.mark.parametrize("seen", ["none", "1.7.0"])
def test_sdk_is_missed_only_when_something_is_rented(
    tmp_path: Path, double: Double, seen: str
) -> None:
    """Planning with the profile needs none; a job says in one sentence what to install."""
    copy, before = lay_rented(tmp_path / "rented", double), len(double.boxes())
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(seen=seen))
    environment = environment_of(copy, double) | {"PYTHONPATH": str(tmp_path)}

    assert typed(copy, environment, "-n", "--quiet", "rules", "host").returncode == 0
    done = typed(copy, environment, "corpus")

    assert done.returncode == 78
    assert f"expected modal >= 1.5.4, < 1.7; seen {seen}" in done.stdout
    assert "pip install 'modal>=1.5.4,<1.7'" in done.stdout
    assert "Traceback" not in done.stdout
    assert len(double.boxes()) == before


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
    bad = boxes.platform(double, **wrong)
    (copy / "config/platforms/modal.yaml").write_text(yaml.safe_dump(bad))
    _, found = _doctor(copy, environment)
    refused = {subject for subject, each in found.items() if each["level"] == "refuse"}
    assert refused == {"account", "volume", "secrets", "prices", "image"}
    assert "pins lab/other" in found["account"]["seen"]
    assert "pins vo-gone" in found["volume"]["seen"]
    assert "'quantgrid' has the id vo-" in found["volume"]["seen"]
    assert len(double.boxes()) == before
