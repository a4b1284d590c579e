"""A demo grid that was never computed, written and read once."""

from pathlib import Path

import pytest

from quantgrid.report.records import Grid, Wanted, read_grid, read_wanted
from report_records import write_demo


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Plan and results of the demo grid; tests read them and change nothing."""
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def wanted(demo_files: tuple[Path, Path]) -> Wanted:
    """What the plan of the demo grid wants."""
    return read_wanted(demo_files[0])


@pytest.fixture(scope="session")
def demo(wanted: Wanted, demo_files: tuple[Path, Path]) -> Grid:
    """The demo grid."""
    return read_grid(wanted, demo_files[1])
