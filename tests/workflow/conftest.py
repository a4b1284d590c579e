"""Working copies as fixtures."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from working_copy import WorkingCopy, lay


@pytest.fixture
def fresh(tmp_path: Path) -> WorkingCopy:
    """A fresh working copy with light science."""
    return lay(tmp_path / "copy", light=True)


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> WorkingCopy:
    copy = lay(tmp_path_factory.mktemp("made") / "copy", light=True)
    copy.snakemake()
    return copy


@pytest.fixture
def made(_made: WorkingCopy, tmp_path: Path) -> Iterator[WorkingCopy]:
    """A working copy whose grid is complete, for this test alone."""
    copy = _made.copy(tmp_path / "copy")
    yield copy
    shutil.rmtree(copy.root)
