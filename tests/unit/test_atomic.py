"""Files appear whole or not at all, whatever ends the writer."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import BOUND_S, KILLED, killer, python, tree
from quantgrid import atomic


def test_publish_replaces_a_file_when_it_is_there(tmp_path: Path) -> None:
    """A reader that holds the old file keeps the old bytes; the name has the new ones."""
    path = tmp_path / "deep" / "file"
    atomic.publish(path, b"old")
    with path.open("rb") as held:
        atomic.publish(path, b"new")
        assert held.read() == b"old"

    assert tree(tmp_path) == {"deep/file": b"new"}


def test_publish_json_gives_equal_bytes_when_values_are_equal(tmp_path: Path) -> None:
    """The order of keys is not part of a value; NaN has no JSON form."""
    atomic.publish_json(tmp_path / "a", {"x": 1, "y": [2.5, None]})
    atomic.publish_json(tmp_path / "b", {"y": [2.5, None], "x": 1})

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(ValueError, match="JSON compliant"):
        atomic.publish_json(tmp_path / "a", float("nan"))


def test_writing_publishes_nothing_when_the_block_fails(tmp_path: Path) -> None:
    """An error inside leaves the old file and no temporary one."""
    path = tmp_path / "file"
    atomic.publish(path, b"old")

    def fail() -> None:
        with atomic.writing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert tree(tmp_path) == {"file": b"old"}


def test_create_once_tells_the_winner_when_called_twice(tmp_path: Path) -> None:
    """The second call changes nothing; the temporary files of both are gone."""
    path, incoming = tmp_path / "a" / "file", tmp_path / "incoming"

    assert atomic.create_once(path, b"first", incoming=incoming)
    assert not atomic.create_once(path, b"second", incoming=incoming)
    assert not atomic.create_once_from(path, path, incoming=incoming)

    assert tree(tmp_path) == {"a/file": b"first"}


_FULL = """
import resource, signal, sys
from pathlib import Path
from quantgrid import atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    atomic.{call}
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize(
    "call", ['publish(Path("file"), b"x" * 2000)', 'create_once(Path("new"), b"x" * 2000)']
)
def test_publication_changes_nothing_when_there_is_no_room(tmp_path: Path, call: str) -> None:
    """A full disk is an error for the caller, and leaves the old file and no debris."""
    (tmp_path / "file").write_bytes(b"old")

    _, said = python(_FULL.format(call=call), cwd=tmp_path)

    assert said == "File too large\n"
    assert tree(tmp_path) == {"file": b"old"}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("call", ["publish", "create_once"])
def test_publication_changes_nothing_when_the_disk_is_full(tmp_path: Path, call: str) -> None:
    """On a file system that is really full the old bytes stay, and what fits is published."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this container may not mount")
    try:
        atomic.publish(disk / "file", b"old")
        name = "file" if call == "publish" else "new"
        with pytest.raises(OSError, match="No space left"):
            getattr(atomic, call)(disk / name, b"x" * 100_000)
        assert tree(disk) == {"file": b"old"}
        atomic.publish(disk / "file", b"new")
        assert tree(disk) == {"file": b"new"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


_WRITER = """
from pathlib import Path
from quantgrid import atomic
atomic.publish(Path("file"), b"new")
print(atomic.create_once(Path("once"), b"new", incoming=Path("incoming")))
"""


@pytest.mark.parametrize(("at", "seen"), [(1, {"file": b"old"}), (2, {"file": b"new"})])
def test_publication_is_whole_when_the_writer_is_killed(
    tmp_path: Path, at: int, seen: dict[str, bytes]
) -> None:
    """SIGKILL before each rename or link: old or new bytes, and debris that is cleared."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "file").write_bytes(b"old")

    code, _ = python(_WRITER, cwd=copy, KILL_AT=f"runner:{at}", **killer(tmp_path / "k"))

    assert code == KILLED
    whole = {name: data for name, data in tree(copy).items() if not atomic.is_debris(name)}
    assert whole == seen
    assert len(tree(copy)) == len(seen) + 1
    assert atomic.clear_dead(copy) == 1
    assert tree(copy) == seen


def _leave(folder: Path, *writers: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for writer in writers:
        (folder / f"file.qgpart-{writer}@00ff").touch()


def test_clear_dead_spares_the_living_when_it_clears(tmp_path: Path) -> None:
    """Only what dead processes of this host left goes, below a folder or in it alone."""
    host = socket.gethostname()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=BOUND_S)
    writers = (f"{host}@{child.pid}", f"{host}@{os.getpid()}", f"other@{child.pid}", "torn")
    for folder in (tmp_path, tmp_path / "below"):
        _leave(folder, *writers)
        (folder / "file").touch()

    assert atomic.clear_dead_in(tmp_path) == 1
    assert atomic.clear_dead(tmp_path) == 1
    left = {f"file.qgpart-{writer}@00ff" for writer in writers[1:]} | {"file"}
    assert {path.name for path in (tmp_path / "below").iterdir()} == left
    assert atomic.clear_dead(tmp_path / "nowhere") == 0


def test_clear_debris_takes_all_of_one_path_when_its_only_writer_asks(tmp_path: Path) -> None:
    """Debris of another path stays, and a folder that is not there is no error."""
    _leave(tmp_path, f"{socket.gethostname()}@{os.getpid()}", "other@1")
    (tmp_path / "file2.qgpart-other@1@00").touch()

    atomic.clear_debris(tmp_path / "file")
    atomic.clear_debris(tmp_path / "nowhere" / "file")

    assert [path.name for path in tmp_path.iterdir()] == ["file2.qgpart-other@1@00"]


def test_clear_dead_takes_what_a_killed_writer_left_when_nobody_buried_it(tmp_path: Path) -> None:
    """A zombie writes nothing any more; containers whose first process reaps nobody keep them."""
    child = _waiting()
    _leave(tmp_path, f"{socket.gethostname()}@{child.pid}.{atomic.start_of(child.pid)}")
    assert atomic.clear_dead(tmp_path) == 0

    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    cleared = atomic.clear_dead(tmp_path)
    child.communicate(timeout=BOUND_S)
    assert cleared == 1


def test_clear_dead_takes_what_a_dead_writer_left_when_its_number_lives_on(tmp_path: Path) -> None:
    """Process numbers come back after 32,768 others; a later process did not write the file."""
    _leave(tmp_path, f"{socket.gethostname()}@{os.getpid()}.1")

    assert atomic.clear_dead(tmp_path) == 1


def test_publication_names_its_writer_when_it_is_under_way(tmp_path: Path) -> None:
    """Number and start of the process stand in the name of the temporary file."""
    with atomic.writing(tmp_path / "file"):
        names = [path.name for path in tmp_path.iterdir()]

    assert f"@{os.getpid()}.{atomic.start_of(os.getpid())}@" in names[0]


@pytest.mark.parametrize("has_start", [True, False], ids=["with a start", "number alone"])
def test_is_running_tells_the_dead_when_asked(*, has_start: bool) -> None:
    """A process that was waited for is dead; this one and the first run."""
    child = _waiting()
    start = atomic.start_of(child.pid) if has_start else ""
    assert atomic.is_running(child.pid, start)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=BOUND_S)

    assert not atomic.is_running(child.pid, start)
    assert atomic.is_running(1, atomic.start_of(1) if has_start else "")


def _waiting() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
