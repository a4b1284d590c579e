"""GPUs of one machine: locks that the kernel frees, shares, and foreign processes.

`nvidia-smi` is a program of the test that answers from two files; everything else is real.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import Desk, cell_job
from own_parts import wait_until
from quantgrid import contract, layout
from quantgrid.errors import ConfigRefusal, DeviceFault, HoldRefusal
from quantgrid.gpus import Gpu, NvidiaSmi, Share, taken

BOUND_S = 180.0
SMI = """#!/bin/sh
case "$1" in
  --query-gpu=index,uuid) cat "{folder}/gpus" ;;
  --query-compute-apps=*) cat "{folder}/apps" ;;
  *) echo "unknown option $1" >&2; exit 2 ;;
esac
"""
TAKE = """
import sys
from pathlib import Path
from quantgrid.gpus import NvidiaSmi, Share, taken
with taken(Share(None, float(sys.argv[2]), Path(sys.argv[1])), NvidiaSmi()) as variables:
    print(variables["CUDA_VISIBLE_DEVICES"], flush=True)
    sys.stdin.read()
"""


class Machine:
    """A machine with two GPUs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.locks = folder, folder / "locks"
        self.children: list[subprocess.Popen[str]] = []
        (folder / "gpus").write_text("0, GPU-aa\n1, GPU-bb\n")
        self.computing()

    def computing(self, *rows: str) -> None:
        """Say which processes compute: `pid, uuid, name, mib`."""
        (self.folder / "apps").write_text("".join(f"{row}\n" for row in rows))

    def share(self, share: float = 1.0, allowed: tuple[int, ...] | None = None) -> Share:
        return Share(allowed, share, self.locks)

    def take(self, share: float = 1.0) -> subprocess.Popen[str]:
        """Another process that takes a share until its input closes."""
        command = [sys.executable, "-c", TAKE, str(self.locks), str(share)]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def end(self) -> None:
        for child in self.children:
            child.kill()
            child.communicate(timeout=BOUND_S)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A machine with two GPUs on which nobody computes."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI.format(folder=tmp_path))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine = Machine(tmp_path)
    yield machine
    machine.end()


def got(child: subprocess.Popen[str]) -> str:
    """The GPU that a process got."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_gpus_are_those_of_the_driver_when_asked(machine: Machine) -> None:
    """Number and id of each, and who computes on them."""
    machine.computing("12, GPU-aa, python, 400")

    assert NvidiaSmi().gpus() == [Gpu(0, "GPU-aa"), Gpu(1, "GPU-bb")]
    assert [each.pid for each in NvidiaSmi().computing()] == [12]


def test_jobs_have_a_gpu_each_when_they_take_whole_ones(machine: Machine) -> None:
    """Two whole jobs lie on two GPUs; the third waits, and says so, until one ends."""
    first, second = machine.take(), machine.take()
    assert {got(first), got(second)} == {"GPU-aa", "GPU-bb"}
    third = machine.take()
    assert third.stderr is not None
    assert third.stderr.readline() == "waiting: 1 of a GPU is not free\n"

    first.communicate(timeout=BOUND_S)

    assert got(third)


def test_gpu_is_free_when_its_holder_was_killed(machine: Machine) -> None:
    """After SIGKILL nothing is left to clear: the kernel freed the locks."""
    holders = [machine.take(), machine.take()]
    for holder in holders:
        assert got(holder)
        holder.kill()
        holder.wait(timeout=BOUND_S)

    with taken(machine.share(), NvidiaSmi()) as one, taken(machine.share(), NvidiaSmi()) as two:
        assert one != two


def test_jobs_share_gpus_when_they_take_parts(machine: Machine) -> None:
    """Four halves fill two GPUs evenly; a fifth does not fit, nor does a third beside them."""
    halves = [machine.take(0.5) for _ in range(4)]
    assert sorted(map(got, halves)) == ["GPU-aa", "GPU-aa", "GPU-bb", "GPU-bb"]

    for share in (0.5, 1 / 3):
        late = machine.take(share)
        assert late.stderr is not None
        assert late.stderr.readline().startswith("waiting:")


def test_script_sees_its_gpu_alone_when_its_runner_took_one(
    machine: Machine, tmp_path: Path
) -> None:
    """CUDA_VISIBLE_DEVICES reaches the script; a neighbour has the other GPU."""
    told = """
import os
from quantgrid.cell import Cell
cell = Cell.from_environment()
cell.finish({"gpu": os.environ["CUDA_VISIBLE_DEVICES"]}, environment={"device": "cuda"})
"""
    desk = Desk.lay(tmp_path / "copy", quantise=told)
    neighbour = got(machine.take())

    job = cell_job()
    runner = desk.runner()
    runner = runner._replace(machine=runner.machine._replace(gpu=machine.share()))
    runner.run(job, progress=desk.progress)

    results = desk.archive.record(job.stages[0].record)["results"]
    assert {results["gpu"], neighbour} == {"GPU-aa", "GPU-bb"}


@pytest.mark.parametrize(("share", "units"), [(1, 12), (0.5, 6), (1 / 3, 4), (0.3, 4), (0.01, 1)])
def test_share_takes_no_less_than_it_asked_when_rounded(share: float, units: int) -> None:
    """Units are rounded up, and float noise takes no unit more."""
    assert Share(None, share, Path("/locks")).units == units


def test_gpu_is_left_alone_when_foreign_processes_compute_on_it(machine: Machine) -> None:
    """The other one is taken; when there is none, the refusal names processes and memory."""
    pid = os.getppid()
    machine.computing(f"{pid}, GPU-aa, python, 400")
    with taken(machine.share(0.1), NvidiaSmi()) as variables:
        assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-bb"}

    machine.computing(f"{pid}, GPU-aa, python, 400", "999999999, GPU-bb, game, 80")
    with pytest.raises(HoldRefusal, match="foreign processes") as caught:
        taken(machine.share(), NvidiaSmi()).__enter__()
    assert f"GPU 0: process {pid} (python, 400 MiB)" in str(caught.value)
    assert "GPU 1: process 999999999 (game, 80 MiB)" in str(caught.value)


def test_gpu_is_shared_when_those_on_it_are_ours(machine: Machine) -> None:
    """A process that a runner started is known by its attempt, and is not foreign."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        env={**os.environ, contract.ATTEMPT: "an-attempt"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    machine.children.append(child)
    assert got(child)
    machine.computing(f"{child.pid}, GPU-aa, python, 400", f"{child.pid}, GPU-bb, python, 400")

    with taken(machine.share(0.5), NvidiaSmi()) as variables:
        assert variables["CUDA_VISIBLE_DEVICES"] in {"GPU-aa", "GPU-bb"}


def test_gpus_are_those_allowed_when_platform_or_environment_says(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of the platform, and numbers or ids of CUDA_VISIBLE_DEVICES."""
    with taken(machine.share(allowed=(1,)), NvidiaSmi()) as variables:
        assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-bb"}
    for visible in ("1", "GPU-b", "1,7"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with taken(machine.share(), NvidiaSmi()) as variables:
            assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-bb"}


@pytest.mark.parametrize(("allowed", "visible"), [((7,), None), (None, ""), ((0,), "1")])
def test_gpus_are_refused_when_none_is_there(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    allowed: tuple[int, ...] | None,
    visible: str | None,
) -> None:
    """A GPU that does not exist or may not be seen is a setting that cannot be meant."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    with pytest.raises(ConfigRefusal, match="not there, or not visible"):
        taken(machine.share(allowed=allowed), NvidiaSmi()).__enter__()


@pytest.mark.parametrize("answer", ["No devices were found", "0, GPU-aa, more", "x, GPU-aa"])
def test_gpus_are_a_fault_when_the_driver_answers_nonsense(machine: Machine, answer: str) -> None:
    """What cannot be read is told with the command, never taken for a machine without GPUs."""
    (machine.folder / "gpus").write_text(f"{answer}\n")

    with pytest.raises(DeviceFault, match="nvidia-smi --query-gpu"):
        NvidiaSmi().gpus()


def test_gpus_are_a_fault_when_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the tool has no GPU that anybody could take."""
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(DeviceFault, match="cannot be listed"):
        NvidiaSmi().gpus()


def test_second_job_waits_at_the_door_while_another_one_chooses(machine: Machine) -> None:
    """Two that choose at once would each take a part of what both need, and neither would start."""
    machine.locks.mkdir()
    door = machine.locks / layout.GPU_DOOR
    with door.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        child = machine.take()
        wait_until(lambda: _waiting_for(door) == [child.pid], "the other one at the door")

    assert child.stdout is not None
    assert child.stdout.readline().startswith("GPU-")


def _waiting_for(path: Path) -> list[int]:
    """The processes that wait for a lock on a file (proc_locks(5): lines with an arrow)."""
    inode = f":{path.stat().st_ino}"
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [int(row[5]) for row in rows if row[1] == "->" and row[6].endswith(inode)]
