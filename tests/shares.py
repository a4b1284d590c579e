"""Who runs what when several workers share a run: the longest first, and what shares a setup stays.

A module is a share, for its fixtures.  Modules whose tests are long and set up for themselves are
split; all tests of the SLURM cluster are one share, for there is one cluster a run.  Each share
goes to the next worker that is free, longest first, so that the last ones to end are short.
Shares that wait and shares that compute are given away in proportion: where all of the first kind
came first, processors were idle, and afterwards all workers shared two.
"""

import csv
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

import pytest
from xdist.scheduler import LoadScopeScheduling

DURATIONS = Path(__file__).parent / "data/durations.csv"
"""Seconds of each module that takes more than a few; a module that is not named comes last."""
CLUSTER = "workflow/test_slurm"
"""How the modules begin whose tests share the cluster, and are a share."""
SPLIT = frozenset(
    {
        *("test_bucket", "test_chain", "test_equivalent", "test_held", "test_kill", "test_launch"),
        *("test_notices", "test_plan", "test_platform_file", "test_rented", "test_runpod"),
        *("test_terminal_snakemake", "test_rental_properties"),
        *("test_corpus_killed", "test_chain_runs", "test_runner_ends", "test_own_stage"),
    }
)
"""Modules whose tests share no setup that takes long."""
COMPUTING = ("laws", "policy", "properties", "unit/corpus", "unit/quantlm", "unit/report")
"""Folders whose tests compute; those of the others wait for processes and clocks half the time."""


class Test(Protocol):
    """What is asked of a test."""

    nodeid: str


T = TypeVar("T", bound=Test)


def share_of(nodeid: str) -> str:
    """The share that a test belongs to."""
    module = nodeid.partition("::")[0]
    if CLUSTER in module:
        return CLUSTER
    return nodeid if PurePosixPath(module).stem in SPLIT else module


def longest_first(tests: list[T]) -> list[T]:
    """Tests by what their modules take; those of one module stay together."""
    known = durations()
    return sorted(tests, key=lambda test: -known.get(_line(test.nodeid), 0.0))


def in_turns(tests: list[T]) -> list[T]:
    """Tests in the order in which they are given away.

    Longest first in each of two kinds, those that wait and those that compute; of both kinds the
    same part is given away at any time.
    """
    ordered = longest_first(tests)
    tests_of = Counter(_line(test.nodeid) for test in ordered)
    groups = [list(group) for _, group in groupby(ordered, lambda test: share_of(test.nodeid))]
    turns: list[tuple[list[T], float]] = []
    for computes in (False, True):
        kind = [group for group in groups if _computes(group[0].nodeid) is computes]
        before = [0.0, *accumulate(_seconds(group, tests_of) for group in kind)]
        turns += zip(kind, (each / before[-1] for each in before), strict=False)
    return [test for group, _ in sorted(turns, key=itemgetter(1)) for test in group]


def _computes(nodeid: str) -> bool:
    return any(f"tests/{folder}/" in nodeid for folder in COMPUTING)


def _seconds(group: list[T], tests_of: Mapping[str, int]) -> float:
    """What a share takes: its part of its module's seconds."""
    line = _line(group[0].nodeid)
    return len(group) * (durations().get(line, 0.0) / tests_of[line] + 0.01)


def _line(nodeid: str) -> str:
    """What the table calls a test."""
    share = share_of(nodeid)
    return share if share == CLUSTER else PurePosixPath(share.partition("::")[0]).stem


@cache
def durations() -> Mapping[str, float]:
    """Seconds by name of a module, or of a share of several."""
    with DURATIONS.open(newline="") as file:
        return {name: float(seconds) for seconds, name in csv.reader(file)}


def import_a_part(folder: Path, number: int, count: int) -> None:
    """Import every so many of the test modules, so that workers compile all of them together.

    pytest rewrites the assertions of a module, which takes ten seconds of CPU for all, and keeps
    what it made; of workers that start at the same time each did it.  What cannot be imported is
    told when it is collected.
    """
    paths = sorted(folder.rglob("test_*.py"))
    sys.path[:0] = sorted({str(path.parent) for path in paths} - set(sys.path))
    sys.dont_write_bytecode = False
    for path in paths[number::count]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(path.stem)


class Shares(LoadScopeScheduling):  # type: ignore[misc]
    """Gives shares away in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
