"""Lets pytest play tests, and passes on what its plugin tells while they run."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rehearsal.narrator.told import Play, parse

ROOT = Path(__file__).resolve().parents[2]
INCIDENTS = ROOT / "tests" / "incidents"
GRIDS = {
    "plain": "tests/workflow/test_rented.py::test_grid_on_rented_machines_equals_the_local_one",
    "runpod": "tests/workflow/test_runpod.py::"
    "test_grid_on_pods_is_that_of_this_machine_when_typed_as_documented",
    "modal": "tests/workflow/test_modal_grid.py::test_grid_is_the_same_in_sandboxes_as_on_a_desk",
}
"""The scene of each platform in which a whole grid goes from text to table, as on this machine."""

_LOOK_S = 0.1
_BOUND_S = 3000
"""A play that takes this long hangs; a machine that others use as well may need minutes for one."""


class News(NamedTuple):
    """What was told last: the tests that will be played, once, then each that is over."""

    collected: tuple[str, ...] = ()
    play: Play | None = None


class Broken(Exception):
    """Pytest itself could not play: no test was told of, or it ended by an error of its own."""


def played(
    tests: list[str], workers: int, *, log: Path | None = None, nightly: bool = False
) -> Iterator[News]:
    """Play tests and tell of each as soon as it is over.

    Args:
        tests: As pytest takes them.
        workers: How many are played at once.
        log: Where pytest's own words go; nowhere by default.
        nightly: The long ones too.

    Raises:
        Broken: with the last lines of pytest.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        news, log = Path(folder) / "news.jsonl", log or Path(folder) / "pytest.log"
        news.touch()
        words = [sys.executable, "-m", "pytest", "-p", "rehearsal.narrator.listening"]
        words += ["--narrate", str(news), "--numprocesses", str(workers), "--dist", "loadfile"]
        words += ["--timeout", str(_BOUND_S)]
        words += ["--nightly"] if nightly else []
        with log.open("wb") as out:
            process = subprocess.Popen([*words, *tests], cwd=ROOT, stdout=out, stderr=out)
        try:
            yield from _followed(process, news)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode not in {0, 1}:
            raise Broken(log.read_text(errors="replace")[-2000:])


def _followed(process: "subprocess.Popen[bytes]", news: Path) -> Iterator[News]:
    """Each whole line of a file that grows for as long as a process runs."""
    known: set[str] = set()
    half = ""  # a long line is written in parts
    with news.open() as file:
        while True:
            is_over = process.poll() is not None
            for part in file:
                half += part
                if half.endswith("\n"):
                    yield from _heard(half, known)
                    half = ""
            if is_over:
                return
            time.sleep(_LOOK_S)


def _heard(line: str, known: set[str]) -> Iterator[News]:
    """What a line tells; workers tell the same collection."""
    collected = json.loads(line).get("collected")
    if collected is None:
        yield News(play=parse(line))
    elif not known:
        known.update(collected)
        yield News(collected=tuple(collected))
