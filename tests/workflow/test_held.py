"""Two controllers, two clones, one archive: real processes, light science."""

import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import Forked
from quantgrid.archive import Archive
from quantgrid.store import open_store
from working_copy import FEW, WorkingCopy, aim, lay, table

BOUND_S = 240.0
TTL_S = 6
PROFILE = ("--profile", "profiles/local")
HELD = """
import os, time
from pathlib import Path
trace = Path(os.environ["HELD_TRACE"])
trace.mkdir(parents=True, exist_ok=True)
(trace / f"{os.environ['QG_FINGERPRINT']}.{os.getpid()}").touch()
if os.environ.get("HELD_GATE"):
    gate = Path(os.environ["HELD_GATE"])
    (gate / "began").touch()
    while not (gate / "open").exists():
        time.sleep(0.05)
"""
"""A stage leaves a trace of each start, and waits at a gate if its controller has one."""


def clone(
    root: Path, archive: Path, *, ttl_s: int = TTL_S, sealed: WorkingCopy | None = None
) -> WorkingCopy:
    """A working copy that shares nothing with others but the archive."""
    copy = lay(root, light=True, sealed=sealed)
    copy.edit("config/config.yaml", "archive: archive", f"archive: {archive}")
    copy.edit("config/platforms/local.yaml", "hold_ttl_s: 120", f"hold_ttl_s: {ttl_s}")
    held = HELD.replace('os.environ["HELD_TRACE"]', repr(str(archive.parent / "trace")))
    for stage in ("trunk", "cooldown", "quantise", "qat", "evaluate"):
        script = copy / f"scripts/{stage}.py"
        script.write_text(held + script.read_text())
    return copy


def computed(archive: Path) -> Counter[str]:
    """Fingerprint to how many processes began to compute it."""
    return Counter(path.name.partition(".")[0] for path in (archive.parent / "trace").iterdir())


def start(copy: WorkingCopy, *config: str, grid: str = FEW, gate: Path | None = None) -> Forked:
    """Start a controller of all cells in a process group of its own."""
    asked = [table(grid), "--config", f"grid={grid}", *config]
    with (copy / "said").open("w") as file:
        return Forked(
            [sys.executable, "-m", "snakemake", *PROFILE, *asked],
            cwd=copy.root,
            env={**os.environ, **({"HELD_GATE": str(gate)} if gate else {})},
            stdout=file,
            stderr=file,
            leads="group",
        )


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    bell = threading.Event()
    for _ in range(int(BOUND_S / 0.1)):
        if true():
            return
        bell.wait(0.1)
    pytest.fail("waited in vain")


def records(archive: Path) -> list[dict[str, object]]:
    """All records of an archive."""
    return [json.loads(path.read_bytes()) for path in archive.rglob("record.json")]


def runners(copy: WorkingCopy) -> list[int]:
    """The processes `quantgrid run` of a working copy."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            is_here = (process / "cwd").readlink() == copy.root
        except OSError:
            continue
        if is_here and command[1:4] == [b"-m", b"quantgrid", b"run"]:
            found.append(int(process.name))
    return found


def logs(copy: WorkingCopy) -> str:
    """All that the jobs of a working copy said."""
    return "\n".join(path.read_text() for path in (copy / "logs").rglob("*.log"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("grid", [FEW, pytest.param("demo", marks=pytest.mark.nightly)])
def test_each_cell_is_computed_once_when_two_controllers_start_at_once(
    tmp_path: Path, grid: str
) -> None:
    """Both end well, the archive's history has one link a record, and one said who held what."""
    archive = tmp_path / "archive"
    copies = [clone(tmp_path / name, archive, ttl_s=120) for name in ("one", "two")]

    controllers = [start(copy, "on_held=wait", grid=grid) for copy in copies]
    codes = [controller.wait(BOUND_S if grid == FEW else 1500) for controller in controllers]

    assert codes == [0, 0], [(copy / "said").read_text() for copy in copies]
    made = records(archive)
    assert {record["counters"]["links"] for record in made} == {1}  # type: ignore[index]
    assert {record["hold"]["token"] for record in made} == {1}  # type: ignore[index]
    assert list(archive.glob("holds/*")) == []
    kept = [re.findall(r"n0-\S+ is computed elsewhere by process \d+", logs(c)) for c in copies]
    assert any(kept)
    assert computed(archive) == Counter(str(record["fingerprint"]) for record in made)
    tables = [(copy / f"results/{grid}.csv").read_bytes() for copy in copies]
    assert tables[0] == tables[1]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_each_cell_of_the_demo_is_computed_once_when_the_archive_is_a_bucket(
    tmp_path: Path, s3_address: str
) -> None:
    """105 cells, two clones that share nothing but a bucket."""
    copies = [clone(tmp_path / name, tmp_path / "archive", ttl_s=120) for name in ("one", "two")]
    for copy in copies:
        aim(copy, s3_address)

    controllers = [start(copy, "on_held=wait", grid="demo") for copy in copies]
    codes = [controller.wait(1500) for controller in controllers]

    assert codes == [0, 0], [(copy / "said").read_text() for copy in copies]
    archive = Archive(open_store(s3_address, tmp_path / "reader"))
    made = [archive.record(key) for key in archive.index()]
    assert sum(record["kind"] == "cells" for record in made) == 105
    assert {record["counters"]["links"] for record in made} == {1}
    assert computed(tmp_path / "archive") == Counter(record["fingerprint"] for record in made)
    assert list(archive.store.list("holds")) == []
    tables = [(copy / "results/demo.csv").read_bytes() for copy in copies]
    assert tables[0] == tables[1]


@pytest.mark.timeout(600)
def test_cells_are_left_out_when_somebody_else_computes_them(
    tmp_path: Path, sealed: WorkingCopy
) -> None:
    """The plan counts them and says who; nothing fails, and the next run folds them."""
    archive, gate = tmp_path / "archive", tmp_path / "gate"
    gate.mkdir()
    one, two = (
        clone(tmp_path / name, archive, ttl_s=120, sealed=sealed) for name in ("one", "two")
    )
    first = start(one, gate=gate)
    wait_for((gate / "began").exists)

    met = two.snakemake(grid=FEW)

    assert re.search(r"make \d+.*, held elsewhere \d+, stale 0", met.plan), met.text
    assert f"in {one.root}, since" in met.text
    assert "run again to fold them" in met.text
    assert not (two / "results/three.csv").exists()
    (gate / "open").touch()
    assert first.wait(BOUND_S) == 0
    assert two.snakemake(table(FEW), grid=FEW).plan.endswith("stale 0")
    assert (two / "results/three.csv").read_bytes() == (one / "results/three.csv").read_bytes()


@pytest.mark.timeout(600)
def test_cells_are_taken_over_when_their_holder_was_killed(
    tmp_path: Path, sealed: WorkingCopy
) -> None:
    """After the time-to-live the other clone computes what the dead one held; tokens tell it."""
    archive, gate = tmp_path / "archive", tmp_path / "gate"
    gate.mkdir()
    one, two = (clone(tmp_path / name, archive, ttl_s=15, sealed=sealed) for name in ("one", "two"))
    first = start(one, gate=gate)
    wait_for((gate / "began").exists)
    second = start(two, "on_held=wait")
    wait_for(lambda: "is computed elsewhere" in logs(two))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(BOUND_S)

    assert second.wait(BOUND_S) == 0, (two / "said").read_text()
    tokens = sorted(record["hold"]["token"] for record in records(archive))  # type: ignore[index]
    assert tokens[0] == 1
    assert tokens[-1] == 2


@pytest.mark.timeout(600)
def test_nothing_is_published_when_its_holder_was_frozen_too_long(
    tmp_path: Path, sealed: WorkingCopy
) -> None:
    """A runner that was stopped past its time-to-live and goes on is refused at its record."""
    archive, gate = tmp_path / "archive", tmp_path / "gate"
    gate.mkdir()
    one, two = (clone(tmp_path / name, archive, sealed=sealed) for name in ("one", "two"))
    first = start(one, gate=gate)
    wait_for((gate / "began").exists)
    frozen = runners(one)
    assert frozen
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    (gate / "open").touch()  # its script ends; the runner does not see it yet

    second = start(two, "on_held=wait")
    assert second.wait(BOUND_S) == 0, (two / "said").read_text()
    before = {path: path.read_bytes() for path in archive.rglob("record.json")}
    for process in frozen:
        os.kill(process, signal.SIGCONT)
    first.wait(BOUND_S)

    assert "lost the hold of" in logs(one)
    assert "publishes nothing" in logs(one)
    after = {path: path.read_bytes() for path in archive.rglob("record.json")}
    assert {path: after[path] for path in before} == before
    holders = {record["hold"]["holder"] for record in records(archive)}  # type: ignore[index]
    assert not [h for h in holders for process in frozen if f"-{process}-" in str(h)]
