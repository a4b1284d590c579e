"""Interrupt a training anywhere and damage what it kept: the end is the same, bit for bit."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import interrupted
from interrupted import Fault, Server
from quantgrid.checkpoint.folder import Checkpoint
from quantgrid.fingerprint import digest_bytes

LINKS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Where links are run."""
    with interrupted.server() as started:
        yield started


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """State and numbers of a training that nothing interrupts."""
    root = tmp_path_factory.mktemp("undisturbed")
    assert server.link(root, Fault("none", 0, "none")) == 0
    return _made(root)


def _made(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in ("final", "numbers")}


def _schedules() -> list[object]:
    few = [pytest.param(seed, id=f"seed{seed}") for seed in range(20)]
    many = [
        pytest.param(seed, id=f"seed{seed}", marks=pytest.mark.nightly) for seed in range(20, 200)
    ]
    return [*few, *many]


@pytest.mark.parametrize("seed", _schedules())
def test_training_ends_the_same_when_interrupted_anywhere(
    seed: int, server: Server, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Signals, kills, stops, full disks and damaged checkpoints over up to ten links."""
    source = random.Random(seed)
    faults = [Fault.drawn(source) for _ in range(LINKS - 1)] + [Fault("none", 0, "none")]
    print(f"seed {seed}")

    for fault in faults:
        code = server.link(tmp_path, fault)
        print(fault, code)
        assert code in fault.codes, (tmp_path / "link.log").read_text()
        if code == 0:
            break

    assert _made(tmp_path) == undisturbed
    assert not [path for path in (tmp_path / "state").glob("*") if "qgpart" in path.name]


def test_training_differs_when_a_state_lacks_something(
    server: Server, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """A checkpoint that was tampered with, digest and all, ends elsewhere: the test can fail."""
    assert server.link(tmp_path, Fault("term", 20, "none")) == 75
    newest = sorted((tmp_path / "state").iterdir())[-1]
    data = bytearray(newest.read_bytes())
    data[-6000 * 4] ^= 1
    newest.unlink()
    tokens = int(newest.name.partition("-")[0])
    (newest.parent / Checkpoint(tokens, digest_bytes(bytes(data))).name).write_bytes(data)

    assert server.link(tmp_path, Fault("none", 0, "none")) == 0

    assert _made(tmp_path)["final"] != undisturbed["final"]


def test_link_tells_its_newest_checkpoint_when_it_was_killed(
    server: Server, tmp_path: Path
) -> None:
    """What the runner reads names a file that is there, with its tokens."""
    assert server.link(tmp_path, Fault("kill", 20, "none")) == -9

    told = json.loads((tmp_path / "link.json").read_bytes())
    assert int(told["checkpoint"].partition("-")[0]) == told["tokens"] > 0
    assert told["saves"] > 0
    names = sorted(path.name for path in (tmp_path / "state").glob("*.safetensors"))
    assert told["checkpoint"] in names[-2:]
