"""One grid on three platforms at the same time: each cell once, and the report says where."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import modal_copy as boxes
import modal_parts as parts
import runpod_copy as pods
from rehearsal.modal.double import Double as Modal
from rehearsal.runpod.double import Double as RunPod
from working_copy import SLOW, WorkingCopy, lay

WAITS = ("--config", "on_held=wait")
PLATFORMS = ["local", "modal", "runpod"]
TRACE = """
import os
from pathlib import Path
Path({folder!r}, f"{{os.environ['QG_FINGERPRINT']}}.{{os.getpid()}}").touch()
"""
"""A stage leaves a trace of each process that begins to compute it."""
GATE = """
import time
ids = {{"MODAL_SANDBOX_ID": "modal", "RUNPOD_POD_ID": "runpod"}}
here = [name for variable, name in ids.items() if variable in os.environ] or ["local"]
Path({folder!r}, here[0]).touch()
end_s = time.monotonic() + 240
while len(list(Path({folder!r}).iterdir())) < 3 and time.monotonic() < end_s:
    time.sleep(0.1)
"""
"""Nothing is quantised before each platform is about to: all three take part, however slow."""


@contextmanager
def _running(copy: WorkingCopy, words: list[str], environ: dict[str, str]) -> Iterator[None]:
    """A controller, which has to end well within its time."""
    with (copy / "said").open("w") as said:
        process = subprocess.Popen(
            words, cwd=copy.root, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield
        assert process.wait(2400) == 0, (copy / "said").read_text()[-6000:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(180)


def _share(copy: WorkingCopy, place: Path) -> None:
    """Let a working copy deposit into the archive of all, and its stages leave traces."""
    copy.edit("config/config.yaml", "archive: archive", f"archive: {place / 'archive'}")
    for stage in ("trunk", "cooldown", "quantise", "qat", "evaluate"):
        script = copy / f"scripts/{stage}.py"
        begin = TRACE.format(folder=str(place / "trace"))
        begin += GATE.format(folder=str(place / "gate")) if stage == "quantise" else ""
        script.write_text(begin + script.read_text())


def _copies(place: Path, runpod: RunPod, modal: Modal, grid: str) -> dict[str, WorkingCopy]:
    """A working copy for each platform; they have nothing in common but the archive."""
    (place / "trace").mkdir()
    (place / "gate").mkdir()
    copies = {
        "local": lay(place / "local", light=True),
        "modal": boxes.lay_rented(place / "modal", modal, grid),
        "runpod": lay(place / "runpod", light=True),
    }
    pods.fill_in(copies["runpod"], grid, factor=SLOW)
    copies["local"].edit("config/config.yaml", "grid: demo ", f"grid: {grid} ")
    for copy in copies.values():
        _share(copy, place)
    return copies


def _records(place: Path) -> list[dict[str, object]]:
    """All records of the archive."""
    return [json.loads(path.read_bytes()) for path in (place / "archive").rglob("record.json")]


def _rows(copy: WorkingCopy, grid: str) -> list[dict[str, str]]:
    with (copy / f"results/{grid}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _assert_once(place: Path, count: int) -> None:
    """By the history of the archive and by the traces, nothing was computed a second time."""
    made = _records(place)
    assert sum(record["kind"] == "cells" for record in made) == count
    assert {record["counters"]["links"] for record in made} == {1}  # type: ignore[index]
    assert {record["hold"]["token"] for record in made} == {1}  # type: ignore[index]
    begun = Counter(path.name.partition(".")[0] for path in (place / "trace").iterdir())
    assert begun == Counter(str(record["fingerprint"]) for record in made)


def _assert_marked(copies: dict[str, WorkingCopy], place: Path, grid: str) -> None:
    """Tables are equal everywhere, and say of each cell where it was made and how that differs."""
    records = [record for record in _records(place) if record["kind"] == "cells"]
    made_on = {str(each["cell"]): each["platform"]["name"] for each in records}  # type: ignore[index]
    tables = {name: _rows(copy, grid) for name, copy in copies.items()}
    assert tables["local"] == tables["modal"] == tables["runpod"]
    rows = tables["local"]
    assert {row["cell"]: row["platform"] for row in rows} == made_on
    assert sorted(set(made_on.values())) == PLATFORMS
    for row in rows:
        base = made_on[row["cell"].partition("/")[0] + "/none"]
        if row["platform"] != base:
            assert "platform" in row["differs"].split()
    assert any("platform" in row["differs"].split() for row in rows)
    page = (copies["local"] / f"results/{grid}.html").read_text()
    assert all(name in page for name in PLATFORMS)


@pytest.mark.nightly
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(("grid", "count"), [("smoke", 14), ("demo", 105)])
def test_each_cell_is_computed_once_when_three_platforms_share_an_archive(
    tmp_path: Path, grid: str, count: int
) -> None:
    """Controllers on a desk, RunPod and Modal at once: one history, one table, nothing billing."""
    place = tmp_path / "place"
    place.mkdir()
    with ExitStack() as stack:
        runpod = stack.enter_context(pods.doubled(tmp_path / "double-runpod", SLOW))
        modal = stack.enter_context(parts.doubled(tmp_path / "double-modal", SLOW))
        copies = _copies(place, runpod, modal, grid)
        environ = boxes.rehearse(copies["modal"], boxes.environment_of(copies["modal"], modal))
        words = ["snakemake", "--profile", "modal", *WAITS]
        calls = {
            "modal": (words, environ),
            "runpod": (
                pods.words(copies["runpod"], pods.environment(runpod), *WAITS),
                {**os.environ},
            ),
            "local": (
                [sys.executable, "-m", "snakemake", "--profile", "profiles/local", *WAITS],
                {**os.environ},
            ),
        }
        with ExitStack() as controllers:
            for name in PLATFORMS:
                controllers.enter_context(_running(copies[name], *calls[name]))

        _assert_once(place, count)
        _assert_marked(copies, place, grid)
        assert runpod.billing == []
        assert modal.living() == []
