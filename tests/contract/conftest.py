"""An archive in a folder and in a bucket, and the commands that act on it."""

from pathlib import Path

import pytest

from acts import DATA, Call, calling
from core_parts import body, put
from quantgrid.archive import Archive
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.store import open_store


@pytest.fixture(params=["folder", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the archive is."""
    if request.param == "folder":
        return str(tmp_path / "archive")
    return str(request.getfixturevalue("s3_address"))


@pytest.fixture
def archive(address: str, tmp_path: Path) -> Archive:
    """An archive that is empty yet."""
    return Archive(open_store(address, tmp_path / "writer"))


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """What the cells of the smoke grid are made from."""
    return trace(load_grid(root, "smoke"), Science(root))


@pytest.fixture
def full(archive: Archive, lineage: Lineage, tmp_path: Path) -> Archive:
    """An archive with every cell of the smoke grid; all weights are one file."""
    for cell, stage in lineage.cells.items():
        record = {**body("cells", cell), "fingerprint": stage.fingerprint}
        put(archive, tmp_path / "out", record)
        weights = lineage.weights[cell]
        record = {**body("weights", cell, files={"w": DATA}), "fingerprint": weights.fingerprint}
        put(archive, tmp_path / "out", record, w=DATA)
    return archive


@pytest.fixture
def call(tmp_path: Path, root: Path, address: str) -> Call:
    """A command in an empty clone, with the project's configuration."""
    clone = tmp_path / "clone"
    clone.mkdir()
    return calling(root, address, clone)
