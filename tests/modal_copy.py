"""A working copy whose profile `modal` rents sandboxes of the double, as a person sets it up."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

import forked
import modal_parts as parts
from quantgrid.rental.register import Register
from quantgrid.store import open_store
from rehearsal.modal.double import Double
from working_copy import PROJECT, WorkingCopy, lay

FACTOR = 30.0


def platform(double: Double, **changes: object) -> dict[str, object]:
    """The file of the platform, for a rehearsal of it."""
    whole: dict[str, object] = yaml.safe_load((PROJECT / "config/platforms/modal.yaml").read_text())
    rented, options = whole["rented"], whole["rented"]["options"]  # type: ignore[index]
    whole |= {
        "device": "cpu",
        "threads": 1,
        "clock_factor": min(double.factor, FACTOR),
        "bills_as": None,
    }
    price = {"usd_per_h": parts.PRICES["cpu"] / 1e6, "source": "test", "date": "2026-11-30"}
    options |= {"candidates": [price], "boot_s": 180, "create_s": 60, "visible_s": 0.5, "bill_s": 0}
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


def lay_rented(
    root: Path, double: Double, grid: str = "smoke", *, light: bool = True, **changes: object
) -> WorkingCopy:
    """A working copy whose profile `modal` is linked as `make setup` does it."""
    copy = lay(root, light=light)
    (copy / "config/platforms/modal.yaml").write_text(yaml.safe_dump(platform(double, **changes)))
    copy.edit("config/config.yaml", "grid: demo", f"grid: {grid}")
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
    copy: WorkingCopy, environment: dict[str, str], *more: str, timeout_s: float = 560
) -> subprocess.CompletedProcess[str]:
    """What a person types."""
    words = ["snakemake", "--profile", "modal", *more]
    return said(copy, rehearse(copy, environment), *words, timeout_s=timeout_s)


def said(
    copy: WorkingCopy, environment: dict[str, str], *words: str, timeout_s: float = 560
) -> subprocess.CompletedProcess[str]:
    """How a program ended in a working copy, and what a person saw."""
    return forked.run([*words], cwd=copy.root, env=environment, timeout=timeout_s)


def numbers(copy: WorkingCopy, platform: str) -> dict[str, object]:
    """What each cell's record says, but for where and when it was made."""
    found = {}
    for path in sorted((copy / "results").rglob("result.json")):
        record = json.loads(path.read_text())
        assert record["platform"]["name"] == platform
        found[record["cell"]] = [record[key] for key in ("fingerprint", "spec", "results", "blobs")]
    return found


def told(copy: WorkingCopy) -> float:
    """What the register says that all machines did cost, in micro-dollars."""
    register = Register(open_store(str(copy / "archive"), copy.root))
    assert register.leases() == {}
    return sum(span.cost for span in register.books().spent())
