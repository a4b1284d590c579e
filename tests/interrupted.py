"""Trains a tiny model in links that are interrupted on purpose, each in a process of its own.

A server has torch imported and forks one process a link, so that a schedule costs a second.  The
links keep their state by the real `Keeper` and `TrainingState`; only the corpus is in memory.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

STEPS = 40
WAIT_S = 120
KINDS = ("none", "term", "int", "kill", "stop", "publication", "full", "full-term")
DAMAGES = ("none", "none", "truncate", "flip", "delete", "empty")
_STEP = b"."
_ROOM_BYTES = 60_000
"""A full disk: half a checkpoint fits."""


@dataclass(frozen=True)
class Fault:
    """What happens to one link, at a step or at a publication, and to its newest checkpoint."""

    kind: str
    at: int
    damage: str

    @classmethod
    def drawn(cls, source: random.Random) -> "Fault":
        """Any of them."""
        kind = source.choice(KINDS)
        at = source.randint(1, 24) if kind == "publication" else source.randint(1, STEPS // 2)
        return cls(kind, at, source.choice(DAMAGES))

    @property
    def codes(self) -> set[int]:
        """How the link may end; every link may also be done before its fault comes.

        A disk that is full at a save ends nothing; one that is full at the end publishes nothing.
        """
        ends = {"term": 75, "int": 75, "kill": -9, "publication": -9, "full-term": 71, "full": 71}
        return {0, ends.get(self.kind, 0)}


# -- the test's side ------------------------------------------------------------------------------


class Server:
    """Runs links, one at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def link(self, root: Path, fault: Fault) -> int:
        """Run a link in a folder under a fault; its exit code, negative for a signal."""
        steps = root / "steps"
        steps.unlink(missing_ok=True)
        os.mkfifo(steps)
        self._say({"root": str(root), **asdict(fault)})
        pid = self._hear()
        with steps.open("rb", buffering=0) as file:
            _disturb(pid, fault, file)
            while file.read(4096):
                pass
        code = self._hear()
        _damage(root / "state", fault)
        return code

    def _say(self, request: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())


@contextmanager
def server() -> Iterator[Server]:
    """A server that ends with the block."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def _disturb(pid: int, fault: Fault, steps: IO[bytes]) -> None:
    """Do to a process what comes from outside, when it told the step."""
    number = {
        "term": signal.SIGTERM,
        "int": signal.SIGINT,
        "kill": signal.SIGKILL,
        "stop": signal.SIGSTOP,
    }.get(fault.kind)
    if number is None:
        return
    for _ in range(fault.at):
        if not steps.read(1):
            return
    os.kill(pid, number)
    if fault.kind == "stop":
        os.kill(pid, signal.SIGCONT)


def _damage(folder: Path, fault: Fault) -> None:
    """Damage the newest checkpoint of a folder."""
    files = sorted(folder.glob("*.safetensors")) if folder.exists() else []
    if not files or fault.damage == "none":
        return
    newest, data = files[-1], bytearray(files[-1].read_bytes())
    match fault.damage if data else "none":  # an earlier link may have left it empty
        case "truncate":
            newest.write_bytes(data[: len(data) // 2])
        case "flip":
            data[fault.at * 997 % len(data)] ^= 1
            newest.write_bytes(data)
        case "empty":
            newest.write_bytes(b"")
        case "delete":
            newest.unlink()


# -- the link's side ------------------------------------------------------------------------------


def serve() -> None:
    """Fork a process for every request; tell its id, and how it ended."""
    for line in sys.stdin:
        request = json.loads(line)
        root = Path(request.pop("root"))
        pid = os.fork()
        if pid == 0:
            _leave(root, Fault(**request))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _leave(root: Path, fault: Fault) -> None:
    from quantgrid import entry

    code = 1
    try:
        with (root / "link.log").open("a") as log:
            os.dup2(log.fileno(), 2)
        code = entry.code_of(lambda: _train(root, fault))
    except Exception:  # noqa: BLE001 - nothing may return into the server
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _train(root: Path, fault: Fault) -> None:
    with (root / "steps").open("wb", buffering=0) as steps:
        if fault.kind == "publication":
            _kill_at_event(fault.at, str(root / "state"))
        finish(root, each_step=lambda number: _inner(number, fault, steps))


def _inner(number: int, fault: Fault, steps: IO[bytes]) -> None:
    """Do to this process what comes from inside, then tell the step."""
    if fault.kind.startswith("full"):
        is_full = fault.at <= number < fault.at + 8
        _limit_files(_ROOM_BYTES if is_full else resource.RLIM_INFINITY)
    if fault.kind == "full-term" and number == fault.at + 4:
        os.kill(os.getpid(), signal.SIGTERM)
    steps.write(_STEP)


def _limit_files(size_bytes: int) -> None:
    """No file may grow beyond so many bytes: writing fails as on a full disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


def _kill_at_event(number: int, folder: str) -> None:
    """SIGKILL before the so-manieth time that a file of the folder is opened, moved or removed."""
    left = [number]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "os.rename", "os.remove"} and folder in str(arguments[0]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def finish(root: Path, *, each_step: Callable[[int], None] = lambda _: None) -> None:
    """Train to the last step, going on from what is kept in `root`; write state and numbers."""
    import torch

    from memory_corpus import TINY, counting, trunk
    from quantgrid.checkpoint.keeper import Keeper
    from quantlm import environment, schedule, state
    from quantlm.checkpoint import TrainingState
    from quantlm.loop import Trainer, full_precision, training_results

    device = environment.prepare("cpu", 1)
    view, made = counting(), [0]

    def forward(model: Any, tokens_BT: torch.Tensor) -> torch.Tensor:
        made[0] += 1
        each_step(made[0])
        logits_BTV = full_precision(model, tokens_BT)
        # a method that draws: the states of the generators are a part of the whole
        return logits_BTV + 1e-3 * torch.randn_like(logits_BTV)

    trainer = Trainer.start(trunk(TINY), view, device, forward=forward)
    torch.manual_seed(1)
    kept, cadence = TrainingState(trainer, view), _eager()
    with Keeper(cell(root), kept, manifest="m" * 64, cadence=cadence) as keeper:
        keeper.resume()
        trainer.run(STEPS, schedule.trunk_rate(2e-3, 4), keeper=keeper)
    with (root / "final").open("wb") as file:
        state.save_state(file, trainer, fingerprint="f" * 64, seen={})
    told = training_results(trainer) | {"receipt": view.receipt()}
    (root / "numbers").write_text(json.dumps(told))
    (root / "chain").write_text(json.dumps(keeper.chain()))


def _eager() -> Any:
    """Saves half of the time, so that a save is never far."""
    from quantgrid.checkpoint.cadence import Cadence

    return Cadence(size_bytes=1, interruption_s=1.0, start_s=time.monotonic(), cap=0.5)


def cell(root: Path) -> Any:
    """A cell that keeps its state in a folder."""
    from quantgrid.cell import Cell

    return Cell(
        id="cell",
        stage="trunk",
        fingerprint="f" * 64,
        spec={},
        parents={},
        corpus=None,
        sentinel=None,
        out=root / "out",
        result=root / "result",
        state=root / "state",
        link=root / "link.json",
        progress=root / "progress",
        metrics=root / "metrics",
        device="cpu",
        threads=1,
        attempt="a",
        deadline_s=None,
        grace_s=30.0,
        interruption_s=3600.0,
        started_wall_s=0.0,
        started_cpu_s=0.0,
    )


if __name__ == "__main__":
    import torch
    import torch._inductor.config

    torch.set_num_threads(1)
    serve()
