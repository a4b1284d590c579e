"""A finished result waits on the volume, also when that is another file system."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core_parts import body, key_of, tree
from quantgrid import layout
from quantgrid.archive import waiting

OTHER = Path("/dev/shm")  # noqa: S108 - a file system of its own on every Linux


def test_files_move_to_the_volume_when_it_is_another_file_system(tmp_path: Path) -> None:
    """A rented machine works on its own disk, and what waits must outlive it."""
    if not OTHER.is_dir() or OTHER.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    record = body(files={"weights": b"bytes"})
    made = tmp_path / "made"
    made.write_bytes(b"bytes")
    with TemporaryDirectory(dir=OTHER) as volume:
        place = tmp_path / layout.WAITING
        place.parent.mkdir(parents=True)
        place.symlink_to(volume)

        waiting.keep(tmp_path, key_of(record), record, {"weights": made})

        found = waiting.find(tmp_path, key_of(record))
        assert found is not None
        assert b"bytes" in tree(Path(volume)).values()
    assert not made.exists()
