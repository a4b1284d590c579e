"""After `quantgrid doctor` a person knows what is mounted, which volume and which archive it is."""

import json
import shutil
from pathlib import Path

import pytest

from quantgrid import volume
from quantgrid.clock import SystemClock
from working_copy import WorkingCopy, lay


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    """A fresh working copy."""
    return lay(tmp_path / "copy", light=True)


def test_doctor_is_content_when_the_place_is_fit(copy: WorkingCopy) -> None:
    """Every subject has a line, and nothing is refused."""
    found = json.loads(copy.quantgrid("doctor", "--json").text)

    subjects = [each["subject"] for each in found]
    assert subjects == [
        "volume", "identity", "archive", "locks", "view",
        "disk", "python", "packages", "devices", "clock", "skew",
    ]  # fmt: skip
    assert "refuse" not in {each["level"] for each in found}


def test_doctor_tells_twins_apart_when_one_is_pinned(copy: WorkingCopy) -> None:
    """Both identities are named where the wrong one is mounted; the right one is `as pinned`."""
    one, other = (volume.establish(copy / name, SystemClock()) for name in ("one", "other"))
    platform = copy / "config/platforms/local.yaml"
    platform.write_text(platform.read_text() + f'volume_id: "{one.id}"\n')

    wrong = copy.quantgrid("doctor", "--volume", "other", code=78).text
    right = copy.quantgrid("doctor", "--volume", "one").text

    assert f"expected volume {one.id}; seen volume {other.id}" in wrong
    assert f"volume {one.id} of workspace local" in right
    assert "as pinned" in right
    listed = copy.quantgrid("volumes", "--volume", "other").text
    assert listed.startswith(
        f"workspace    local\nvolume       {other.id} (NOT the pinned {one.id})"
    )


def test_doctor_refuses_when_a_device_is_asked_for_that_is_not_there(copy: WorkingCopy) -> None:
    """A platform with a GPU that does not exist here is refused, with what to do."""
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver")
    copy.edit("config/platforms/local.yaml", "device: cpu ", "device: cuda ")

    assert "the driver shows no GPU" in copy.quantgrid("doctor", code=78).text


def test_grid_is_refused_when_its_volume_is_not_durable(copy: WorkingCopy) -> None:
    """Where the platform promises durability, no job starts on memory."""
    if not Path("/dev/shm").is_mount():  # noqa: S108
        pytest.skip("no tmpfs at /dev/shm")
    platform = copy / "config/platforms/local.yaml"
    platform.write_text(platform.read_text() + "durable: true\n")
    said = copy.snakemake("--config", "volume=/dev/shm/qg-none", code=78, grid="").text

    assert "refused: this volume would not keep the work, so nothing was started" in said
    assert "seen tmpfs at /dev/shm" in said
    assert not (copy / "receipts").exists()
