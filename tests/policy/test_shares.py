"""The tests are shared out by names that exist."""

from pathlib import Path

import shares


def test_shares_name_modules_that_exist_when_looked_up(root: Path) -> None:
    """A module that was renamed or removed leaves no line behind."""
    there = {path.stem for path in (root / "tests").rglob("test_*.py")}

    assert {*shares.SPLIT, *shares.durations()} - there == {shares.CLUSTER}


def test_longest_share_comes_first_when_tests_are_sorted() -> None:
    """Tests of one share stay together and in their order; the unknown come last."""
    given = ["new.py::x", "laws.py::x", "slurm.py::y", "laws.py::a", "slurm_life.py::z"]
    tests = [_Test(f"tests/workflow/test_{name}") for name in given]

    found = [test.nodeid.partition("test_")[2] for test in shares.longest_first(tests)]

    assert found == ["slurm.py::y", "slurm_life.py::z", "laws.py::x", "laws.py::a", "new.py::x"]
    assert len({shares.share_of(test.nodeid) for test in tests}) == 3


def test_shares_that_wait_and_that_compute_take_turns_when_tests_are_given_away() -> None:
    """Each kind longest first, tests of a share together, and both kinds end at the same time."""
    waiting = [f"workflow/test_chain.py::{name}" for name in "abcd"]  # each test is a share
    computing = [f"unit/quantlm/test_gptq.py::{name}" for name in "ab"]
    computing += [f"unit/report/test_new.py::{name}" for name in "ab"]
    tests = [_Test(f"tests/{name}") for name in (*computing, *waiting)]

    found = [test.nodeid.removeprefix("tests/") for test in shares.in_turns(tests)]

    assert found == [waiting[0], *computing[:2], *waiting[1:], *computing[2:]]


class _Test:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
