"""Working copies as fixtures."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from working_copy import FEW, WorkingCopy, lay, once, run_corpus, run_light, run_whole


@pytest.fixture
def fresh(tmp_path: Path) -> WorkingCopy:
    """A fresh working copy with light science."""
    return lay(tmp_path / "copy", light=True)


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> WorkingCopy:
    """A working copy whose corpus is sealed, for tests of what comes after; nobody changes it."""
    return once(tmp_path_factory, "sealed", run_corpus)


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> WorkingCopy:
    return once(tmp_path_factory, "light", run_light)


@pytest.fixture
def made(_made: WorkingCopy, tmp_path: Path) -> Iterator[WorkingCopy]:
    """A working copy whose grid is complete, for this test alone."""
    copy = _made.copy(tmp_path / "copy")
    yield copy
    shutil.rmtree(copy.root)


@pytest.fixture
def here(grid: str, request: pytest.FixtureRequest) -> WorkingCopy:
    """The working copy of this desk whose grid, that of the test, is complete."""
    found: WorkingCopy = request.getfixturevalue("few" if grid == FEW else "made")
    return found


@pytest.fixture
def few(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> WorkingCopy:
    """A working copy whose grid of three cells is complete, for this test alone."""
    made = once(tmp_path_factory, FEW, partial(run_light, grid=FEW))
    return made.copy(tmp_path / "copy")


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., WorkingCopy]:
    """A complete grid on this machine, to be compared with; whoever asks must not change it."""

    def find(grid: str, *, light: bool) -> WorkingCopy:
        make = partial(run_whole, grid=grid, light=light)
        return once(tmp_path_factory, f"whole-{grid}-{light}", make)

    return find
