"""A volume is known by the identity that it carries."""

import json
from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.clock import SystemClock
from quantgrid.errors import CorpusRefusal
from quantgrid.volume import establish, identify, locked, require


def test_identity_is_given_once_when_established_twice(tmp_path: Path) -> None:
    """A volume keeps its identity, and two volumes have two."""
    one = establish(tmp_path / "one", SystemClock())
    other = establish(tmp_path / "other", SystemClock(), workspace="rented")

    assert establish(tmp_path / "one", SystemClock()) == one == identify(tmp_path / "one")
    assert (one.workspace, other.workspace) == ("local", "rented")
    assert one.id != other.id


def test_volume_is_refused_when_it_is_another(tmp_path: Path) -> None:
    """The message names both identities and calms."""
    volume = establish(tmp_path, SystemClock())

    with pytest.raises(CorpusRefusal) as refused:
        require(tmp_path, "0123")

    assert "expected volume 0123; seen volume " + volume.id in str(refused.value)
    assert "Nothing is lost, you look at another volume" in str(refused.value)
    assert require(tmp_path, volume.id) == volume


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": "1"'])
def test_volume_is_refused_when_its_identity_cannot_be_read(tmp_path: Path, content: str) -> None:
    """A damaged identity is no identity, and is not replaced by a new one."""
    (tmp_path / layout.VOLUME_IDENTITY).write_text(content)

    with pytest.raises(CorpusRefusal, match="cannot be read"):
        establish(tmp_path, SystemClock())


def test_volume_is_refused_when_nothing_is_mounted(tmp_path: Path) -> None:
    """An empty mount point is no volume for a reader."""
    with pytest.raises(CorpusRefusal, match="no volume is mounted here"):
        identify(tmp_path)


def test_folder_is_held_by_one_when_two_ask(tmp_path: Path) -> None:
    """A second holder is told at once; the folder is free again when the first one ends."""
    with locked(tmp_path, wait=False) as first, locked(tmp_path, wait=False) as second:
        assert (first, second) == (True, False)
    with locked(tmp_path, wait=False) as third:
        assert third


def test_identity_says_who_it_is_when_read_by_a_person(tmp_path: Path) -> None:
    """The file is readable JSON with a schema."""
    establish(tmp_path, SystemClock())
    value = json.loads((tmp_path / layout.VOLUME_IDENTITY).read_text())

    assert (value["schema"], value["version"]) == ("quantgrid/volume", 1)
    assert set(value) == {"schema", "version", "id", "workspace", "created"}
