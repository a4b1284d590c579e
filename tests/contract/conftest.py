"""An archive in a folder and in a bucket, commands that act on it; and platforms that rent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from platform_worlds import WORLDS, PlatformWorld, until, world_of

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


@pytest.fixture(params=sorted(WORLDS), scope="session")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlatformWorld]:
    """One platform for all tests: each of them leaves nothing behind."""
    with world_of(request.param)(tmp_path_factory.mktemp(request.param)) as world:
        yield world


@pytest.fixture
def world(shared: PlatformWorld) -> Iterator[PlatformWorld]:
    """The platform; whatever a test rents is ended, and the end is confirmed by the bill."""
    yield shared
    for machine in shared.billing():
        shared.platform.stop(machine)
    until(lambda: shared.billing() == set())
