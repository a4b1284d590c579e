"""Limits, preemption and dead nodes on a real SLURM, by the hour: `make nightly` runs these."""

import json
import signal
from pathlib import Path

import pytest

from slurm_cluster import Cluster
from slurm_grid import SMALL, controller, laid, links, run, starts, stock_command, until
from working_copy import WorkingCopy, lay, numbers

TRUNK = "receipts/trunk/n0-s0/16384"
LIGHT_GRID = "demo"

pytestmark = pytest.mark.nightly


def test_trunk_of_four_limits_makes_one_result(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of one minute, a trunk of four: each link is a job, no retry is used."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("LIGHT_WORK_S", "160")

    with controller(copy, "--retries", "0", "--set-resources", "milestone:runtime=1") as process:
        assert process.wait(timeout=280) == 0

    found = links(copy)
    assert [link["end"] for link in found[:-1]] == ["cap"] * (len(found) - 1)
    assert found[-1]["end"] == "done"
    assert 4 <= len(found) <= 6
    assert starts(cluster, copy)[TRUNK] == len(found)
    assert not list((copy / "failures").rglob("*.json"))


def block(cluster: Cluster, seconds: int) -> None:
    """Jobs of a better partition that take every core of both nodes."""
    for _ in range(2):
        words = ["--partition=gpu", "--exclusive", "--time=5", "--output=/dev/null"]
        cluster.call("sbatch", *words, f"--wrap=sleep {seconds}")


def test_preempted_job_goes_on_in_a_new_one(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM, ten seconds of grace, state saved: whatever SLURM calls it, the chain goes on."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("LIGHT_WORK_S", "20")
    spot = ("--set-resources", "milestone:slurm_partition=spot")
    with controller(copy, "--retries", "0", *spot) as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)
        block(cluster, 15)
        assert process.wait(timeout=200) == 0

    ends = [link["end"] for link in links(copy)]
    assert ends == ["interrupted", "done"]
    assert starts(cluster, copy)[TRUNK] == 2


def test_dead_nodes_job_and_its_successor_make_one_result(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed slurmd whose job lives on: its successor waits for the hold and takes the result."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("LIGHT_WORK_S", "75")
    with controller(copy, "--retries", "0") as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)
        (line,) = cluster.jobs()
        node = cluster.call("squeue", "-h", "-j", line.split("|")[0], "-o", "%N").strip()
        cluster.kill(f"slurmd-{node}")
        cluster.signal_launchers(signal.SIGSTOP)
        assert process.wait(timeout=280) == 0

    said = (copy / "said").read_text()
    assert "NODE_FAIL" in said
    (link,) = links(copy)  # one process made it, from its first step to its last
    assert link["end"] == "done"
    (record,) = (copy / "archive/trunks").glob("*/*/*/record.json")
    assert json.loads(record.read_bytes())["hold"]["token"] == 1
    assert starts(cluster, copy)[TRUNK] == 2
    assert len(list((copy / "results").glob("*/*/result.json"))) == 2


def test_job_killed_without_a_word_goes_on_from_its_checkpoint(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is gone with all that ran on it: the next link starts at the last save."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("LIGHT_WORK_S", "30")
    with controller(copy, "--retries", "0") as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)
        (line,) = cluster.jobs()
        node = cluster.call("squeue", "-h", "-j", line.split("|")[0], "-o", "%N").strip()
        cluster.kill(f"slurmd-{node}")
        cluster.kill_steps()
        assert process.wait(timeout=280) == 0

    ends = [link["end"] for link in links(copy)]
    assert ends == ["interrupted", "done"]
    assert starts(cluster, copy)[TRUNK] == 2


@pytest.mark.timeout(1500)
def test_real_smoke_grid_on_slurm_equals_local_bit_for_bit(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Fourteen cells with real science: every loss of every sequence, every file."""
    here, there = lay(tmp_path / "here", light=False), lay(tmp_path / "there", light=False)
    here.snakemake(grid="smoke", timeout_s=600)

    run(there, grid="smoke", resources=("tmpdir=None", "mem_mb=1500", "runtime=30"), timeout_s=800)

    assert numbers(there, "smoke") == numbers(here, "smoke")


@pytest.mark.timeout(900)
def test_grid_with_the_stock_plugin_equals_local(
    cluster: Cluster, made: WorkingCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--profile slurm --executor slurm`: fourteen cells, light science, the same numbers."""
    copy = lay(tmp_path / "stock", light=True)
    monkeypatch.setenv("PATH", cluster.environment_with_srun["PATH"])

    copy.call(*stock_command("smoke"), timeout_s=880)

    assert numbers(copy, "smoke") == numbers(made, "smoke")


@pytest.mark.timeout(1500)
def test_grid_of_105_cells_on_slurm_equals_local(cluster: Cluster, tmp_path: Path) -> None:
    """Light science, every cell of the demo grid: one start each."""
    here, there = lay(tmp_path / "here", light=True), lay(tmp_path / "there", light=True)
    here.snakemake(grid=LIGHT_GRID, timeout_s=600)

    run(there, grid=LIGHT_GRID, resources=SMALL, timeout_s=800)

    assert numbers(there, LIGHT_GRID) == numbers(here, LIGHT_GRID)
    assert len(numbers(there, LIGHT_GRID)["table"]) == 105
    assert set(starts(cluster, there).values()) == {1}


def test_controllers_killed_at_random_moments_start_each_cell_once(
    cluster: Cluster, made: WorkingCopy, tmp_path: Path
) -> None:
    """Ten kills over the smoke grid, wherever they hit."""
    copy = lay(tmp_path / "slurm", light=True)
    for number in range(10):
        with controller(copy, grid="smoke") as process:
            wanted = _begun(copy) + 1 + number % 3
            until(lambda p=process, w=wanted: p.poll() is not None or _begun(copy) >= w, copy)
            process.kill()

    run(copy, grid="smoke")

    assert numbers(copy, "smoke") == numbers(made, "smoke")
    assert set(starts(cluster, copy).values()) == {1}


def _begun(copy: WorkingCopy) -> int:
    """Records so far, and submissions that began."""
    records = len(list((copy / "archive").glob("*/*/*/*/record.json")))
    return records + len(list((copy / "work/slurm").glob("*.start")))
