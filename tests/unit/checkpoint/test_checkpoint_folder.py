"""Checkpoints are whole, verified, of one identity, and the old ones go."""

import errno
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint_parts import Count
from quantgrid.checkpoint.folder import Folder, retained
from quantgrid.errors import ConfigRefusal, CorpusRefusal

FINGERPRINT, MANIFEST = "f" * 64, "a" * 64


def _folder(path: Path, **changes: object) -> Folder:
    options: dict[str, object] = {"fingerprint": FINGERPRINT, "manifest": MANIFEST, **changes}
    return Folder(path, **options)  # type: ignore[arg-type]


def _save(folder: Folder, tokens: int) -> Path:
    parts = Count(tokens).snapshot(folder.signed({"watch": tokens}))
    return folder.path / folder.publish(tokens, parts).name


def _tokens(folder: Folder) -> list[int]:
    return [each.tokens for each in folder.checkpoints()]


def test_folder_has_nothing_when_it_does_not_exist(tmp_path: Path) -> None:
    """The first link starts from nothing and without a note."""
    assert _folder(tmp_path / "no").restore(Count()) == (None, {}, [])


def test_folder_restores_the_newest_with_its_facts(tmp_path: Path) -> None:
    """State and facts of the last save come back."""
    folder, state = _folder(tmp_path), Count()
    _save(folder, 900)
    _save(folder, 1000)

    checkpoint, facts, notes = folder.restore(state)

    assert checkpoint is not None
    assert (checkpoint.tokens, state.tokens, facts, notes) == (1000, 1000, {"watch": 1000}, [])


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "unreadable"])
def test_folder_falls_back_when_the_newest_is_damaged(tmp_path: Path, damage: str) -> None:
    """An older one is taken, the damaged one is named; it goes when a newer one is whole."""
    folder, state = _folder(tmp_path), Count()
    _save(folder, 900)
    newest = _save(folder, 1000)
    data = newest.read_bytes()
    match damage:
        case "cut":
            newest.write_bytes(data[:-1])
        case "flip":
            newest.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        case "empty":
            newest.write_bytes(b"")
        case _:
            newest.unlink()
            newest.mkdir()

    checkpoint, _, notes = folder.restore(state)

    assert checkpoint is not None
    assert (checkpoint.tokens, state.tokens) == (900, 900)
    assert len(notes) == 1
    assert "000000000001000" in notes[0]
    if damage != "unreadable":
        _save(folder, 1100)
        assert _tokens(folder) == [900, 1100]


def test_folder_takes_a_checkpoint_again_when_its_bytes_are_made_again(tmp_path: Path) -> None:
    """A damaged file is replaced by the same state, saved again, and is whole then."""
    folder = _folder(tmp_path)
    _save(folder, 900)
    _save(folder, 1000).write_bytes(b"")
    folder.restore(Count())

    _save(folder, 1000)

    state = Count()
    assert _folder(tmp_path).restore(state)[2] == []
    assert (state.tokens, _tokens(folder)) == (1000, [900, 1000])


def test_folder_refuses_when_the_state_is_of_another_cell(tmp_path: Path) -> None:
    """Another fingerprint or manifest is refused with both, and the state is not touched."""
    _save(_folder(tmp_path), 1000)
    state = Count(7)

    with pytest.raises(ConfigRefusal, match=f"expected {'e' * 64}; seen {FINGERPRINT}"):
        _folder(tmp_path, fingerprint="e" * 64).restore(state)
    with pytest.raises(CorpusRefusal, match=f"expected {'b' * 64}; seen {MANIFEST}"):
        _folder(tmp_path, manifest="b" * 64).restore(state)
    assert state.tokens == 7


def test_folder_ignores_what_is_no_checkpoint(tmp_path: Path) -> None:
    """Files of others and halves of dead writers are no states."""
    (tmp_path / "notes.txt").touch()
    (tmp_path / "000000000001000-zz.safetensors").touch()

    assert _folder(tmp_path).checkpoints() == []


def test_folder_is_as_it_was_when_the_disk_is_full(tmp_path: Path) -> None:
    """A real file system of 64 kB: the save fails, the one before is whole, the next one fits."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        folder = _folder(disk / "state")
        before = _save(folder, 1000).read_bytes()
        filler = disk / "filler"
        filler.write_bytes(b"x" * 40_000)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            folder.publish(2000, [b"y" * 60_000])

        assert [path.name for path in folder.path.iterdir()] == [folder.checkpoints()[0].name]
        assert (folder.path / folder.checkpoints()[0].name).read_bytes() == before
        filler.unlink()
        _save(folder, 3000)
        assert _tokens(folder) == [1000, 3000]
    finally:
        subprocess.run(["/bin/umount", str(disk)], check=True)


def test_folder_keeps_the_last_two_and_an_old_one_when_asked(tmp_path: Path) -> None:
    """With a latency of 500 tokens there is always something from before the trouble."""
    folder = _folder(tmp_path, latency_tokens=500)
    for tokens in range(100, 2100, 100):
        _save(folder, tokens)

    kept = _tokens(folder)
    assert kept[-2:] == [1900, 2000]
    assert any(tokens <= 1500 for tokens in kept)
    assert len(kept) <= 4


@given(
    gaps=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    last=st.integers(1, 4),
    latency=st.integers(0, 200),
)
def test_retention_spans_the_latency_whatever_is_saved(
    gaps: list[int], last: int, latency: int
) -> None:
    """The newest are kept; one is old enough and not older than twice the latency and a gap."""
    kept: list[int] = []
    now = 0
    for gap in gaps:
        now += gap
        kept = sorted(retained([*kept, now], last=last, latency_tokens=latency))
        assert len(kept) <= last + 2
        assert now in kept
        if latency and now - gaps[0] >= latency:
            assert any(now - 2 * latency - 50 <= each <= now - latency for each in kept)
