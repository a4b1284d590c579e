"""Calls of Snakemake that are refused before anything is planned."""

from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.place import foreign_profiles, refuse_unnamed, refuse_unreadable


def test_second_working_copy_is_refused_when_it_is_not_named(tmp_path: Path) -> None:
    """Both folders are told; a named one, and the clone itself, pass."""
    elsewhere = tmp_path / "elsewhere"

    refuse_unnamed(elsewhere, tmp_path, is_named=True)
    refuse_unnamed(tmp_path, tmp_path, is_named=False)
    with pytest.raises(ConfigRefusal) as caught:
        refuse_unnamed(elsewhere, tmp_path, is_named=False)

    assert (caught.value.expected, caught.value.seen) == (tmp_path, elsewhere)


def test_configuration_is_refused_when_it_is_no_yaml(tmp_path: Path) -> None:
    """The refusal names the file and the line; a good file passes."""
    path = tmp_path / layout.CONFIG
    path.parent.mkdir(parents=True)
    path.write_text("grid: demo\n")
    refuse_unreadable(tmp_path)

    path.write_text("grid: demo\nselect: [\n")

    with pytest.raises(ConfigRefusal) as caught:
        refuse_unreadable(tmp_path)
    assert str(caught.value.where) in {f"{layout.CONFIG}:2", f"{layout.CONFIG}:3"}


def test_profile_is_told_when_it_is_of_another_working_copy(tmp_path: Path) -> None:
    """A link that leads there is seen through; this copy's, and a person's own, say nothing."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    for copy in (mine, other):
        (copy / "profiles" / "local").mkdir(parents=True)
        (copy / layout.CONFIG).parent.mkdir()
        (copy / layout.CONFIG).touch()
    own, theirs, person = (tmp_path / name for name in ("own", "theirs", "person"))
    own.symlink_to(mine / "profiles" / "local")
    theirs.symlink_to(other / "profiles" / "local")
    person.mkdir()

    (told,) = foreign_profiles([("a", own), ("local", theirs), ("c", person)], mine)

    assert told == (
        f"profile local is that of {other}, not of this working copy: "
        f"use `--profile {mine}/profiles/local`"
    )
