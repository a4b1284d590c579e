"""The adapter with the oldest SDK that it allows; the newest one is what every other test uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantgrid import modal_sdk

OLDEST = ".".join(map(str, modal_sdk.OLDEST))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_adapter_does_the_same_when_the_sdk_is_the_oldest(root: Path, tmp_path: Path) -> None:
    """Every test of the adapter passes with it; protobuf is older too, as that SDK asks for."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    got = subprocess.run(
        [*pip, f"modal=={OLDEST}", "protobuf<7"], capture_output=True, text=True, check=False
    )
    if got.returncode:
        pytest.skip(f"no package index has modal {OLDEST}: {got.stderr[-200:]}")
    paths = os.pathsep.join([str(tmp_path), *sys.path])

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-rs", "tests/unit/rental/test_modal.py"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 skipped" in done.stdout
