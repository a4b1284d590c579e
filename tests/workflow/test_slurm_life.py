"""A person on a lab host: launch there, look on, stop, and ask the doctor first."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from slurm_cluster import Cluster
from slurm_grid import command, controller, gated, laid, links, run, starts, until
from working_copy import PROJECT, WorkingCopy

TRUNK = "receipts/trunk/n0-s0/16384"


def test_stop_ends_every_job_and_keeps_its_state(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller first, then its jobs, which save and leave; the next run goes on."""
    copy = laid(tmp_path / "copy", sealed=sealed)
    gate = gated(copy, monkeypatch)
    with controller(copy) as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)
        status = copy.quantgrid("status").text
        told = json.loads(copy.quantgrid("status", "--json").text)
        said = copy.quantgrid("stop").text
        process.wait(timeout=180)

    assert "slurm     1 running" in status
    assert [job["state"] for job in told["slurm"]] == ["RUNNING"]
    assert "Ended 1 job in SLURM, and none is left." in said
    assert not cluster.jobs()
    assert "slurm     1" not in copy.quantgrid("status").text
    gate.touch()
    run(copy)
    assert [link["end"] for link in links(copy)] == ["interrupted", "done"]
    assert starts(cluster, copy)[TRUNK] == 2


def test_controller_runs_as_a_job_when_launched_on_slurm(cluster: Cluster, tmp_path: Path) -> None:
    """It submits the cells from a node, ends by itself, and leaves nobody waiting to follow it."""
    copy = laid(tmp_path / "copy")
    arguments = command()[3:]

    said = copy.quantgrid("launch", "--on", "slurm", "--ask=--mem=500M", "--", *arguments).text

    assert "Launched: process" in said
    copy.quantgrid("attach")
    until(lambda: not cluster.jobs(), copy)
    assert "ended" in copy.quantgrid("status").text
    assert len(list((copy / "results").glob("*/*/result.json"))) == 2
    assert set(starts(cluster, copy).values()) == {1}


@pytest.mark.nightly
def test_commands_of_the_guide_do_what_they_say(cluster: Cluster, tmp_path: Path) -> None:
    """Each line of its first block, as it is typed, on a grid of two cells; none of them fails."""
    copy = laid(tmp_path / "copy")
    copy.edit("config/config.yaml", "grid: demo", "grid: two")
    (copy / "slurm").symlink_to(copy / "profiles/slurm")  # as `make setup` links it elsewhere
    block = (PROJECT / "docs/guides/slurm.md").read_text().split("```")[1]
    said = {}
    for line in block.replace("--partition=cpu", "--partition=gpu").strip().splitlines()[1:]:
        program, *words = shlex.split(line, comments=True)
        if program != "make":
            said[line] = copy.call(sys.executable, "-m", program, *words).text

    texts = list(said.values())
    assert len(texts) == 7, list(said)
    assert "make 2" in texts[1]
    assert "2/2 cells" in texts[2]
    for text in texts[3:5]:
        assert "There was nothing to do, so nothing runs." in text
    assert "No controller runs in this working copy" in texts[6]
    assert not cluster.jobs()


@pytest.mark.nightly
def test_stop_ends_a_controller_that_runs_as_a_job(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It, the one that waits to follow it, and the cells."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("LIGHT_WORK_S", "60")
    copy.quantgrid("launch", "--on", "slurm", "--ask=--mem=500M", "--", *command()[3:])
    until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)

    copy.quantgrid("stop")

    assert not cluster.jobs()
    assert "runs" not in copy.quantgrid("status").text.split()


def doctor(copy: WorkingCopy, code: int = 0) -> str:
    """What the doctor of the lab host says."""
    return copy.quantgrid("doctor", "--profile", "slurm", code=code).text


def test_doctor_proves_the_shared_folder_from_a_node(cluster: Cluster, tmp_path: Path) -> None:
    """Write, fsync and read back both ways, locks, clock, limits and what the profile asks for."""
    copy = laid(tmp_path / "copy")

    said = doctor(copy)

    assert f"{copy.root}: written and read back between here and" in said
    assert f"{copy.root}/volume: written and read back" in said
    for word in ("slurm-wlm 22.05", "accounting answers", "gpu* up", "gpu:h100:2", "-t 240"):
        assert word in " ".join(said.split()), word
    assert "ok      locks     reach" in said
    assert "its clock is off by 0.0 s" in said
    assert not list(copy.root.glob(".probe*"))
    assert not list((copy / "volume").glob(".probe*"))


def test_doctor_says_what_slurm_would_refuse(cluster: Cluster, tmp_path: Path) -> None:
    """A wrong account, a grace longer than KillWait, accounting away: each with what to do."""
    copy = laid(tmp_path / "copy", grace_s=60)
    copy.edit("profiles/slurm/profile.yaml", "# - slurm_account=lab", "- slurm_account=nobody")
    cluster.kill("slurmdbd")
    cluster.await_controller()

    said = doctor(copy, code=78)

    assert "SLURM refuses the resources of the profile" in said
    assert "warn    KillWait" in said
    assert "warn    accounting" in said


def test_doctor_without_slurm_says_so_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a laptop: one line, and no traceback."""
    copy = laid(tmp_path / "copy")
    monkeypatch.setenv("PATH", "/nowhere")

    assert "refuse  slurm     no sbatch, srun, squeue, scancel, scontrol here" in doctor(copy, 78)
