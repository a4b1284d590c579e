"""The grid on a real SLURM: the same numbers, and one start a cell, whatever happens."""

import os
import signal
import sys
from pathlib import Path

import pytest

from slurm_cluster import Cluster
from slurm_grid import SMALL, controller, gated, laid, links, run, starts, until
from working_copy import CELLS, GRID, WorkingCopy, lay, numbers

DAY_S = 4
"""Seconds that stand for a day of the platform."""


def shorten(copy: WorkingCopy) -> None:
    """A cap of 24 hours and a grace of 10 minutes, by a clock that is so much faster."""
    copy.edit("config/platforms/slurm.yaml", "cap_s: null", "cap_s: 86400")
    copy.edit("config/platforms/slurm.yaml", "grace_s: 5", "grace_s: 600")
    with (copy / "config/platforms/slurm.yaml").open("a") as file:
        file.write(f"clock_factor: {86400 // DAY_S}\n")


def test_grid_on_slurm_equals_local_bit_for_bit(
    made: WorkingCopy, cluster: Cluster, tmp_path: Path
) -> None:
    """Fourteen cells, light science: every number, file and row is that of the desk."""
    copy = lay(tmp_path / "slurm", light=True)

    run(copy, grid=GRID)

    assert numbers(copy, GRID) == numbers(made, GRID)
    assert len(numbers(copy, GRID)["table"]) == CELLS
    assert set(starts(cluster, copy).values()) == {1}
    assert not list((copy / "work/slurm").iterdir())


def test_cells_start_once_when_controllers_are_killed(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL while a job runs, and again before it finishes unseen: adopted, never doubled."""
    copy = laid(tmp_path / "copy", sealed=sealed)
    gate = gated(copy, monkeypatch)
    with controller(copy) as process:
        until(lambda: list((copy / "work/slurm").glob("*trunk*.start")), copy)
        process.kill()
        process.wait()
    with controller(copy) as process:
        until(lambda: b"is followed again" in (copy / "said").read_bytes(), copy)
        process.kill()
        process.wait()
    gate.touch()
    until(lambda: not cluster.jobs(), copy)

    run(copy)

    counted = starts(cluster, copy)
    assert set(counted.values()) == {1}, counted
    assert len(links(copy)) == 1


def test_job_goes_on_when_a_person_interrupts(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C detaches; the same command follows the same job again."""
    copy = laid(tmp_path / "copy", sealed=sealed)
    gate = gated(copy, monkeypatch)
    with controller(copy) as process:
        until(lambda: list((copy / "work/slurm").glob("*trunk*.start")), copy)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=180)

    assert len(cluster.jobs()) == 1
    assert b"jobs go on in SLURM" in (copy / "said").read_bytes()
    gate.touch()
    again = run(copy)
    counted = starts(cluster, copy)
    assert set(counted.values()) == {1}, f"{counted}\n{again.text}"
    assert [link["end"] for link in links(copy)] == ["done"]


def test_chain_of_jobs_makes_one_result_and_uses_no_retry(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days under a cap of one: each link is a new SLURM job, and none is a failure."""
    copy = laid(tmp_path / "copy", sealed=sealed)
    shorten(copy)
    monkeypatch.setenv("LIGHT_WORK_S", str(2 * DAY_S))

    run(copy, "--retries", "0")

    ends = [link["end"] for link in links(copy)]
    assert len(ends) >= 3
    assert ends == ["cap"] * (len(ends) - 1) + ["done"]
    counted = starts(cluster, copy)
    assert counted["receipts/trunk/n0-s0/16384"] == len(ends)


def test_grid_completes_when_daemons_of_slurm_go_and_come(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounting is gone all the time, slurmctld for a while: nothing is lost or started twice.

    Nobody asks accounting whether the account of a job exists: sbatch knows.
    """
    copy = laid(tmp_path / "copy", sealed=sealed)
    gate = gated(copy, monkeypatch)
    cluster.kill("slurmdbd")
    with controller(copy, resources=(*SMALL, "slurm_account=lab")) as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.link.json")), copy)
        cluster.kill("slurmctld", signal.SIGTERM)
        until(lambda: b"did not answer" in (copy / "said").read_bytes(), copy)
        cluster.start("slurmctld")
        gate.touch()
        assert process.wait(timeout=120) == 0

    cluster.start("slurmdbd")
    until(lambda: starts(cluster, copy).total() >= 3, copy)  # slurmctld hands over what it kept
    counted = starts(cluster, copy)
    assert set(counted.values()) == {1}, f"{counted}\n{(copy / 'said').read_text()}"


LOST_REPLY = """#!{python}
import subprocess, sys
late = ["--begin=now+4"] if any("trunk" in word for word in sys.argv) else []
subprocess.run(["{sbatch}", *late, *sys.argv[1:]], stdin=sys.stdin, capture_output=True)
print("sbatch: error: Socket timed out on send/recv operation", file=sys.stderr)
sys.exit(1)
"""


def test_job_is_found_when_the_answer_of_sbatch_is_lost(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applied, but the reply was lost: it is looked for by its token, also before it begins.

    sinfo does not answer at all, and nobody needs it: SLURM knows its own default partition.
    What the profile asks for is enough; memory is what the size of the model says.
    """
    copy = laid(tmp_path / "copy", sealed=sealed)
    shim = tmp_path / "bin/sbatch"
    shim.parent.mkdir()
    (shim.parent / "sinfo").write_text("#!/bin/sh\nexit 1\n")
    (shim.parent / "sinfo").chmod(0o755)
    real = cluster.call("which", "sbatch").strip()
    shim.write_text(LOST_REPLY.format(python=sys.executable, sbatch=real))
    shim.chmod(0o755)

    with monkeypatch.context() as patch:  # the cluster itself needs the real ones again
        patch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
        run(copy, resources=())

    assert set(starts(cluster, copy).values()) == {1}
    asked = cluster.call("sacct", "-X", "-n", "-P", "-S", "now-1hour", "-o", "ReqMem,Comment")
    assert "2000M|receipts/trunk" in asked


def test_job_that_somebody_cancels_stays_cancelled(
    cluster: Cluster, tmp_path: Path, sealed: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scancel` is a person's will: the cell fails with that sentence, and its state is kept."""
    copy = laid(tmp_path / "copy", sealed=sealed)
    gated(copy, monkeypatch)
    with controller(copy) as process:
        until(lambda: list((copy / "volume/state").glob("*/*/*.links.json")), copy)
        (line,) = cluster.jobs()
        cluster.call("scancel", line.split("|")[0])
        assert process.wait(timeout=180) == 1

    said = (copy / "said").read_text()
    assert "somebody cancelled SLURM job" in said
    # accounting hears of a cancelled job a moment later
    until(lambda: starts(cluster, copy)["receipts/trunk/n0-s0/16384"] == 1, copy)
    assert list((copy / "volume/state").glob("*/*/*.links.json"))
