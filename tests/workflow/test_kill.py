"""SIGKILL anywhere, then the same command: the same numbers, and no debris."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from killing import Killer, seed_of_today, times
from working_copy import FEW as GRID
from working_copy import WorkingCopy, lay, numbers, once, run_light, table

KILLS = 12
KILLS_NIGHTLY = 200
CHAINS = 3
RESTARTS = 3
CELLS_ONLY = (table(GRID),)
"""What is asked for where the page is not the point: it takes a third of a whole run."""

STEPS = (
    ".volume.json",
    "/plan.json",
    "/shard-00007.npy",
    "/validation.npy",
    "/manifest.json",
    "/prepared.",
    "/sealed.",
    "/archive.json",
    "/blobs/",
    "archive/trunks/",
    "archive/weights/",
    "archive/cells/",
    "receipts/trunk/",
    "receipts/cell/",
    "/result.json",
    "/ledger.csv",
    "/three.csv",
    "/three.html",
)
"""A part of the path that each publication of the pipeline ends at."""


def debris(copy: WorkingCopy) -> list[Path]:
    """Unfinished files and directories of dead attempts."""
    attempts = copy / "work/attempts"
    left = list(attempts.iterdir()) if attempts.is_dir() else []
    return [*left, *copy.root.rglob("*.qgpart-*")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The numbers of a run that nobody killed."""
    return numbers(once(tmp_path_factory, GRID, partial(run_light, grid=GRID)), GRID)


def finish(copy: WorkingCopy, *targets: str) -> dict[str, Any]:
    """The same command once more, undisturbed; no debris is left."""
    copy.snakemake(*targets, grid=GRID)
    assert debris(copy) == []
    return numbers(copy, GRID)


def kill_often(
    root: Path, count: int, expected: dict[str, Any], targets: tuple[str, ...] = ()
) -> None:
    """Kill `count` times in all, `RESTARTS` times per working copy, and compare each copy."""
    seed = seed_of_today()
    print(f"QG_TEST_SEED={seed}")
    begin_s = time.monotonic()  # kills are uniform over a run as long as this machine takes for it
    assert finish(lay(root / "timed", light=True), *targets) == expected
    run_s, plan = time.monotonic() - begin_s, times(seed, count, 1.0)
    hits = 0
    for number, start in enumerate(range(0, count, RESTARTS)):
        copy = lay(root / f"copy{number}", light=True)
        for restart, share in enumerate(plan[start : start + RESTARTS]):
            begin_s = time.monotonic()
            is_hit = Killer(copy, GRID, targets).at_time(share * run_s)
            hits += is_hit
            if not (is_hit or restart):  # a whole run: the machine is quicker by now
                run_s = time.monotonic() - begin_s
        assert finish(copy, *targets) == expected, f"QG_TEST_SEED={seed}"
        assert copy.look(*targets, grid=GRID).jobs == {}
    assert hits >= count // 6, f"only {hits} of {count} kills met a running grid"


@pytest.mark.parametrize("first", range(CHAINS))
def test_numbers_are_the_same_when_killed_again_before_later_publications(
    tmp_path: Path, undisturbed: dict[str, Any], first: int
) -> None:
    """Each run mends what the kill before left, until it is killed at the next of the steps."""
    copy, steps = lay(tmp_path / "copy", light=True), STEPS[first::CHAINS]

    for step in steps:
        assert Killer(copy, GRID).at_step(step, tmp_path / "hook"), f"no publication of {step}"
    assert finish(copy, *(() if STEPS[-1] in steps else CELLS_ONLY)) == undisturbed


@pytest.mark.nightly
@pytest.mark.parametrize("step", STEPS)
def test_numbers_are_the_same_when_killed_before_a_publication(
    tmp_path: Path, undisturbed: dict[str, Any], step: str
) -> None:
    """SIGKILL just before each named publication leaves nothing that a second run cannot mend."""
    copy = lay(tmp_path / "copy", light=True)

    assert Killer(copy, GRID).at_step(step, tmp_path / "hook"), f"no publication of {step}"
    assert finish(copy) == undisturbed


@pytest.mark.timeout(600)
def test_numbers_are_the_same_when_killed_at_any_time(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """SIGKILL at times uniform over a run, several times in a row, changes no number."""
    kill_often(tmp_path, KILLS, undisturbed, CELLS_ONLY)


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_numbers_are_the_same_when_killed_two_hundred_times(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """As above, often, and the page is made too."""
    kill_often(tmp_path, KILLS_NIGHTLY, undisturbed)
