"""GPUs of one machine, shared by all working copies on it: locks that the kernel frees.

A GPU has twelve units, each a lock on a file; a share takes as many as it needs, all or none.
Whoever dies, however it dies, holds nothing any more.  Processes that took no lock are foreign: a
GPU on which one of them computes is not used.
"""

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from quantgrid import contract, layout
from quantgrid.errors import ConfigRefusal, DeviceFault, HoldRefusal

UNITS = 12
"""Divisible by 1, 2, 3, 4 and 6 jobs a GPU."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
_PAUSE_S = 0.5
_ANSWER_S = 60.0


class Gpu(NamedTuple):
    """A GPU: the number that nvidia-smi gives it, and its unique id."""

    number: int
    uuid: str


class Computing(NamedTuple):
    """A process that computes on a GPU."""

    pid: int
    uuid: str
    name: str
    memory_mib: str


class Driver(Protocol):
    """What tells which GPUs there are and who computes on them."""

    def gpus(self) -> list[Gpu]:
        """All GPUs of this machine."""

    def computing(self) -> list[Computing]:
        """All processes that compute on them."""


class NvidiaSmi:
    """The driver's own tool; its queries are those of `nvidia-smi --help-query-gpu`."""

    def gpus(self) -> list[Gpu]:
        """See `Driver.gpus`."""
        return [Gpu(int(row[0]), row[1]) for row in self._rows("--query-gpu=index,uuid")]

    def computing(self) -> list[Computing]:
        """See `Driver.computing`."""
        rows = self._rows("--query-compute-apps=pid,gpu_uuid,process_name,used_memory")
        return [Computing(int(row[0]), *row[1:]) for row in rows]

    def _rows(self, query: str) -> list[list[str]]:
        import subprocess  # only machines with a GPU pay for it

        command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_ANSWER_S, check=True
            )
            rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
            width = query.count(",") + 1
            if any(len(row) != width or not row[0].isdigit() for row in rows):
                raise ValueError(done.stdout[:200])
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise DeviceFault(
                "the GPUs of this machine cannot be listed",
                seen=f"{type(error).__name__}: {error}",
                where=" ".join(command),
                do="See what the command says; or set `device: cpu` for this platform.",
            ) from error
        return rows


class Share(NamedTuple):
    """What a job wants of the GPUs.

    Args:
        allowed: Numbers of the GPUs that may be used; None for all that are visible.
        share: The part of a GPU that the job takes, above 0 and at most 1.
        locks: The folder of the locks, the same for everybody on this machine.
    """

    allowed: tuple[int, ...] | None
    share: float
    locks: Path

    @property
    def units(self) -> int:
        """Locks that the share takes; rounded up, so that nobody gets less than it asked."""
        return max(1, min(UNITS, -int(-self.share * UNITS // 1)))


@contextmanager
def taken(wanted: Share, driver: Driver) -> Iterator[dict[str, str]]:
    """Take a share of a GPU, waiting for other jobs of ours to end.

    Yields:
        Environment variables for the process that computes.

    Raises:
        ConfigRefusal: when an allowed GPU is not there.
        HoldRefusal: when foreign processes occupy all allowed GPUs.
        DeviceFault: when the driver does not answer.
    """
    gpus, is_told = _allowed(wanted, driver.gpus()), False
    with ExitStack() as stack:
        while True:
            foreign = _foreign(driver.computing())
            free = [gpu for gpu in gpus if gpu.uuid not in foreign]
            if not free:
                raise _occupied([foreign[gpu.uuid] for gpu in gpus], gpus)
            gpu = _take_one(free, wanted, stack)
            if gpu:
                break
            if not is_told:
                print(
                    f"waiting: {wanted.share:g} of a GPU is not free", file=sys.stderr, flush=True
                )
            is_told = True
            time.sleep(_PAUSE_S)
        yield {VISIBLE: gpu.uuid}


def _take_one(gpus: Sequence[Gpu], wanted: Share, stack: ExitStack) -> Gpu | None:
    """Take units of the GPU that has most of them free, behind a door that lets one in."""
    _make_shared(wanted.locks)
    with ExitStack() as door:
        fcntl.flock(door.enter_context(_open_shared(wanted.locks / layout.GPU_DOOR)), fcntl.LOCK_EX)
        # nobody else takes meanwhile; who ends only frees
        found = {gpu: _free_units(gpu, wanted.locks) for gpu in gpus}
        best = max(gpus, key=lambda gpu: len(found[gpu]))
        if len(found[best]) < wanted.units:
            return None
        for name in found[best][: wanted.units]:
            lock = stack.enter_context(_open_shared(wanted.locks / name))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return best


def _free_units(gpu: Gpu, locks: Path) -> list[str]:
    names = [layout.GPU_UNIT.format(uuid=gpu.uuid, unit=unit) for unit in range(UNITS)]
    return [name for name in names if _is_free(locks / name)]


def _is_free(path: Path) -> bool:
    with _open_shared(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _make_shared(folder: Path) -> None:
    """A folder that every user of this machine may put locks into, and empty of its own only."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o1777)


def _open_shared(path: Path) -> IO[bytes]:
    """A lock file, of whichever user; made only when missing, as such a folder demands."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return os.fdopen(descriptor, "rb")


def _allowed(wanted: Share, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that this platform and the caller's environment allow."""
    visible = os.environ.get(VISIBLE)
    names = None if visible is None else [name.strip() for name in visible.split(",")]
    found = [
        gpu
        for gpu in gpus
        if (wanted.allowed is None or gpu.number in wanted.allowed)
        and (names is None or any(_is_named(gpu, name) for name in names))
    ]
    missing = set(wanted.allowed or ()) - {gpu.number for gpu in gpus}
    if missing or not found:
        raise ConfigRefusal(
            "a GPU that this platform asks for is not there, or not visible",
            expected=f"gpus {list(wanted.allowed) if wanted.allowed else 'auto'}",
            seen=f"{[gpu.number for gpu in gpus]}, {VISIBLE}={visible}",
            do="Correct `gpus` in the platform's file, or set `device: cpu`.",
        )
    return found


def _is_named(gpu: Gpu, name: str) -> bool:
    """Whether a part of CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide) means a GPU."""
    return name == str(gpu.number) or (name.startswith("GPU-") and gpu.uuid.startswith(name))


def _foreign(computing: Sequence[Computing]) -> dict[str, list[Computing]]:
    """Id of a GPU to the processes on it that no runner started."""
    found: dict[str, list[Computing]] = {}
    for process in computing:
        if not _is_ours(process.pid):
            found.setdefault(process.uuid, []).append(process)
    return found


def _is_ours(pid: int) -> bool:
    """Whether a runner started a process: each has the attempt in its environment (proc(5))."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(each.startswith(f"{contract.ATTEMPT}=".encode()) for each in variables)


def _occupied(found: Sequence[Sequence[Computing]], gpus: Sequence[Gpu]) -> HoldRefusal:
    said = [
        f"GPU {gpu.number}: process {each.pid} ({each.name}, {each.memory_mib} MiB)"
        for gpu, processes in zip(gpus, found, strict=True)
        for each in processes
    ]
    return HoldRefusal(
        "foreign processes compute on every GPU that this platform may use",
        seen="; ".join(said),
        do="Nothing failed: end them, or allow another GPU in the platform's file, and run again.",
    )
