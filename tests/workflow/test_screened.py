"""On a platform that is paid nothing is trained, held or prepared before its clearance."""

import json
import resource
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import own_source
from quantgrid.clock import timestamp
from quantgrid.rental.register import Register
from quantgrid.store.folder import FolderStore
from working_copy import CELLS, WorkingCopy

PAID = (
    "--config",
    "platform=paid-here",
    "grid=smoke",
    "money={max_usd_per_grid: 2, probe_max_usd: 1}",
)
ONE = (*PAID, "select=cell = n0-t20k-s0/none")
MISTAKES = {
    "syntax": ("src/quantlm/schedule.py", "def trunk_rate(", "def trunk_rate(("),
    "import": (
        "src/quantlm/loop.py",
        "from quantlm.order import Order",
        "from quantlm.order import O",
    ),
    "config value": ("config/models/n0.yaml", "num_heads: 2", "num_heads: 3"),
    "shape": (
        "src/quantlm/model.py",
        "functional.linear(self.norm(x_BTD), self.head_weight)",
        "self.norm(x_BTD)[..., :7]",
    ),
}
TOLD = {
    "syntax": (78, "not Python"),
    "import": (1, "cannot import name 'O'"),
    "config value": (78, "3 heads do not divide"),
    "shape": (1, "expected (4, 64, 256), seen (4, 64, 7)"),
}
"""Exit code of Snakemake, and what a person reads."""


def clearances(copy: WorkingCopy) -> list[Path]:
    """All clearances of a working copy."""
    return sorted((copy / "receipts/screens").rglob("clearance.*.json"))


def holds(copy: WorkingCopy) -> list[Path]:
    """The keys of holds; those of finished jobs are cleared."""
    return sorted((copy / "archive/holds").rglob("*"))


def test_nothing_is_held_when_a_script_cannot_be_imported(fresh: WorkingCopy) -> None:
    """Compile and smoke run by themselves and fail; no probe, no shard, no hold, no attempt."""
    fresh.edit("scripts/trunk.py", "from light import make", "from light import made")

    said = fresh.snakemake(*ONE, code=1, grid="").text

    assert "forecast " in said
    log = next((fresh / "logs/receipts/screens/smoke").glob("compile.*.log")).read_text()
    assert "failed: script trunk does not run, so nothing that costs money was started" in log
    assert "cannot import name 'made'" in log
    assert f"({fresh / 'scripts/trunk.py'}:" in log
    assert not holds(fresh)
    assert not clearances(fresh)
    assert not list(fresh.root.glob("receipts/*/*/*.json"))
    assert not (fresh / "volume/corpora").exists()
    assert [path.name for path in (fresh / "logs/receipts").iterdir()] == ["screens"]


def test_plan_is_refused_at_once_when_nothing_may_be_spent(fresh: WorkingCopy) -> None:
    """A person who said no amount is told the amount, before the first job."""
    said = fresh.snakemake("--config", "platform=paid-here", "grid=smoke", code=78, grid="").text

    assert "refused: measuring n0-none, n0-rtn, n0-gptq, n0-qat may cost more" in said
    assert "at most $0.00 (money.probe_max_usd); seen $0.33" in said
    assert not (fresh / "receipts").exists()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_clearance_comes_first_when_the_platform_is_paid(
    fresh: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the history of the archive: each attempt is younger; records name it; a price voids it."""
    monkeypatch.setenv("LIGHT_WORK_S", "0.5")

    jobs = fresh.snakemake(*PAID, grid="", timeout_s=1200).jobs
    screens = {"compile": 1, "smoke": 1, "probe": 4, "budget": 1, "clearance": 1}
    assert screens.items() <= jobs.items()
    (clearance,) = clearances(fresh)
    records = [json.loads(path.read_bytes()) for path in fresh.root.glob("archive/*/*/*/*/*.json")]
    begun = [link["started"] for record in records for link in record.get("links", ())]
    cleared = datetime.fromtimestamp(clearance.stat().st_mtime, UTC)
    assert len(begun) >= CELLS
    assert timestamp(cleared) <= min(begun)
    results = [json.loads(path.read_bytes()) for path in fresh.root.glob("results/*/*/result.json")]
    assert len(results) == CELLS
    assert {each["clearance"]["fingerprint"] for each in results} == {clearance.name.split(".")[1]}
    assert all(each["cost"]["usd"] > 0 for each in results)
    charged = [span.begin_s for span in Register(FolderStore(fresh / "archive")).books().spent()]
    assert len(charged) >= CELLS
    assert min(charged) >= int(cleared.timestamp())

    assert fresh.look(*PAID, grid="").jobs == {}
    fresh.edit("config/devices/here.yaml", "usd_per_hour: 1.00", "usd_per_hour: 90000")
    fresh.edit("config/grids/smoke.yaml", "seeds: [0]", "seeds: [0, 1]")
    said = fresh.snakemake(*PAID, code=78, grid="").text
    assert "refused: this plan costs more than was allowed: the grid would cost $" in said
    assert clearances(fresh) == [clearance]


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_told_within_a_minute_when_the_science_is_real(
    tmp_path: Path, mistake: str
) -> None:
    """From the command to its end, with nothing warm: no probe, no hold, no lease.

    The minute is one of processors, which others may use meanwhile; both times are printed.
    """
    copy = own_source.lay(tmp_path / "copy")
    copy.edit(*MISTAKES[mistake])
    code, words = TOLD[mistake]
    begin, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()

    said = copy.snakemake(*ONE, code=code, grid="", timeout_s=800).text

    wall_s, end = time.monotonic() - begin_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    print(f"{mistake}: {cpu_s:.1f} s of processors, {wall_s:.1f} s by the wall")
    logs = (copy / "logs").rglob("*.log") if (copy / "logs").exists() else ()
    assert words in said + "".join(path.read_text() for path in logs)
    assert cpu_s < 60
    assert not holds(copy)
    assert not clearances(copy)
    assert not list((copy / "receipts").rglob("probe/*.json"))
    assert not list((copy / "archive").glob("rental/leases/*"))
