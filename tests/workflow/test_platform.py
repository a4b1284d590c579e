"""What the file of a platform says holds for every job, also when `--config platform=` names it."""

from pathlib import Path

import pytest

from s3_server import free_ports
from working_copy import WorkingCopy, lay


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    """A fresh working copy with a second platform, whose mount cannot be asked for a fresh view."""
    copy = lay(tmp_path / "copy", light=True)
    local = (copy / "config/platforms/local.yaml").read_text()
    nobody = f"rclone:127.0.0.1:{free_ports(1)}"
    (copy / "config/platforms/mounted.yaml").write_text(f"{local}reload: {nobody}\n")
    return copy


def test_seal_reloads_as_the_platform_of_the_call_says(copy: WorkingCopy) -> None:
    """Without a fresh view nothing is vouched for; the configured platform would need none."""
    copy.snakemake("corpus", "--config", "platform=mounted", code=1, grid="")

    log = next((copy / "logs/receipts/corpus").rglob("sealed.*.log")).read_text()
    assert "the mount was asked for a fresh view and gave none" in log
    assert not list((copy / "receipts").rglob("sealed.*.json"))
