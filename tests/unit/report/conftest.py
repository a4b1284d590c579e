"""A demo grid that was never computed, written and read once."""

from pathlib import Path

import pytest

from quantgrid.load import load_grid
from quantgrid.report.records import Grid, Wanted, read_grid, read_wanted
from report_records import crowded_records, write_demo, write_grid


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


@pytest.fixture(scope="session")
def crowded(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Two models of the large grid with all their forms, a seed of each."""
    cells = [
        cell
        for cell in load_grid(root, "paper").cells
        if cell.trunk.model.name in {"n1", "n10"} and cell.trunk.seed == 0
    ]
    wanted, results = write_grid(tmp_path_factory.mktemp("crowded"), crowded_records(cells))
    return read_grid(read_wanted(wanted), results)
