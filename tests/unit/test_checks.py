"""What a doctor finds out about locks, clocks and views."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clocked_store import ClockedStore
from quantgrid.checks import Level, _clock, _locks, _views
from quantgrid.durability import Mount, look
from quantgrid.load import load_platform


@pytest.mark.parametrize(
    ("kind", "options", "reaches"),
    [
        ("ext4", "rw", None),
        ("overlay", "rw", None),
        ("nfs4", "rw,vers=4.2,local_lock=none", True),
        ("nfs", "rw,local_lock=all", False),
        ("nfs", "rw,nolock", False),
        ("lustre", "rw,flock", True),
        ("lustre", "rw,localflock", False),
        ("lustre", "rw", False),
        ("fuse.rclone", "rw", False),
        ("9p", "rw", False),
    ],
)
def test_locks_reach_other_hosts_where_the_mount_says_so(
    kind: str, options: str, reaches: bool | None
) -> None:
    """A disk of one host has no other; whatever is not known to pass locks on does not."""
    assert _locks.reaches_hosts(Mount("/m", kind, "s", 1, 1, options)) is reaches


def test_options_are_those_of_the_mount_when_looked_at() -> None:
    """Both lists of mountinfo: that of the mount and that of the file system."""
    assert "rw" in look(Path("/proc")).options.split(",")


def test_locks_hold_when_a_folder_is_of_this_machine(tmp_path: Path) -> None:
    """The second lock of one file is refused, and nothing is left behind."""
    assert _locks.check("locks", tmp_path, is_needed=True).level is not Level.REFUSE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("is_needed", "level"), [(True, Level.REFUSE), (False, Level.WARN)])
def test_locks_are_missed_when_no_file_can_be_locked(
    tmp_path: Path,
    is_needed: bool,
    level: Level,
) -> None:
    """Without locks two controllers start: refused for the working copy, told for a volume."""
    found = _locks.check("locks", tmp_path / "none", is_needed=is_needed)

    assert found.level is level
    assert found.seen.startswith(f"no locks under {tmp_path / 'none'}: ")


def test_lock_is_no_lock_when_two_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that grants everything excludes nobody."""
    monkeypatch.setattr(_locks.fcntl, "flock", lambda *_: None)

    assert _locks.find_trouble(tmp_path) == "two at once have the lock of one file"


@pytest.mark.parametrize(
    ("ahead_s", "level"),
    [(0, Level.OK), (-20, Level.OK), (60, Level.WARN), (-60, Level.WARN), (3600, Level.REFUSE)],
)
def test_skew_is_told_when_the_store_has_another_time(
    tmp_path: Path, ahead_s: int, level: Level
) -> None:
    """Seconds with their sign; refused from where buckets refuse."""
    store = ClockedStore(tmp_path)
    store.moment = datetime.now(UTC) + timedelta(seconds=ahead_s)

    found = _clock.compare(store)

    assert found.level is level
    assert abs(float(found.seen.split()[0]) - ahead_s) < 15
    assert "within 0.0 s" not in found.seen


def test_view_is_not_proved_when_there_is_no_other(root: Path, tmp_path: Path) -> None:
    """The same mount under another name proves nothing; durable volumes get a warning."""
    platform = load_platform(root, "local")
    (tmp_path / "v").mkdir()

    for second in (None, tmp_path):
        found = _views.check(tmp_path / "v", platform, second)
        assert (found.level, found.seen[:31]) == (Level.OK, "not proved from a second view: ")
    assert _views.check(tmp_path / "v", replace(platform, durable=True), None).level is Level.WARN


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="no tmpfs at /dev/shm")  # noqa: S108
def test_view_is_refused_when_another_volume_is_mounted_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written here never comes out there, and is removed again."""
    monkeypatch.setattr(_views, "_WITHIN_S", 0.5)
    found = _views.check(tmp_path / "v", load_platform(root, "local"), Path("/dev/shm"))  # noqa: S108

    assert found.level is Level.REFUSE
    assert "was not seen from /dev/shm" in found.seen
    assert list((tmp_path / "v").iterdir()) == []
