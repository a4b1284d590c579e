"""The tests are shared out by names that exist."""

from pathlib import Path

import shares


def test_shares_name_modules_that_exist_when_looked_up(root: Path) -> None:
    """A module that was renamed or removed leaves no line behind."""
    there = {path.stem for path in (root / "tests").rglob("test_*.py")}
    named = {*shares.SPLIT, *shares.TOGETHER, *shares.durations()}

    assert named - there <= set(shares.TOGETHER.values())


def test_longest_share_comes_first_when_tests_are_sorted() -> None:
    """Tests of one module stay together and in their order; the unknown come last."""
    tests = [
        _Test(name) for name in ("a/test_new.py::x", "a/test_laws.py::x", "a/test_slurm.py::y")
    ]
    tests += [_Test("a/test_laws.py::a"), _Test("a/test_slurm_life.py::z")]

    assert [test.nodeid for test in shares.longest_first(tests)] == [
        *("a/test_slurm.py::y", "a/test_slurm_life.py::z", "a/test_laws.py::x"),
        *("a/test_laws.py::a", "a/test_new.py::x"),
    ]
    assert len({shares.share_of(test.nodeid) for test in tests}) == 3


class _Test:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
