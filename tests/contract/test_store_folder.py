"""What a store in a folder does when its file system fails, and when its writers die."""

import errno
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quantgrid.errors import PlatformFault
from quantgrid.store.folder import FolderStore

BOUND_S = 180.0


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    """A folder with one key."""
    store = FolderStore(tmp_path / "store")
    store.put_once("a/1", b"1")
    return store


def test_folder_is_a_fault_when_a_file_is_in_its_place(tmp_path: Path) -> None:
    """A file where the folder should be is never taken for an empty store."""
    (tmp_path / "store").write_text("not a folder")
    store = FolderStore(tmp_path / "store")
    source = tmp_path / "source"
    source.write_bytes(b"")

    calls: list[Callable[[], object]] = [
        lambda: store.find("a/1"),
        lambda: store.size("a/1"),
        lambda: list(store.list("a")),
        lambda: list(store.entries("a")),
        store.now,
        lambda: store.put_once("a/1", b""),
        lambda: store.put_file_once("a/1", source),
        lambda: store.delete("a/1"),
    ]
    for call in calls:
        with pytest.raises(PlatformFault, match=r"a directory|exists") as caught:
            call()
        assert str(tmp_path / "store") in str(caught.value)


def test_folder_is_a_fault_when_a_key_cannot_be_read(folder: FolderStore) -> None:
    """A key that is there and cannot be read is not absent."""
    (folder.root / "loop").symlink_to("loop")

    with pytest.raises(PlatformFault, match="cannot read loop"):
        folder.find("loop")
    with pytest.raises(PlatformFault, match="cannot look at loop"):
        folder.size("loop")
    with pytest.raises(PlatformFault, match="cannot list loop"):
        list(folder.list("loop"))
    with pytest.raises(PlatformFault, match="cannot list loop"):
        list(folder.entries("loop"))
    (folder.root / "a" / "loop").symlink_to("loop")
    with pytest.raises(PlatformFault, match="cannot look at a/loop"):
        list(folder.entries("a"))


def test_folder_takes_its_time_from_the_file_system_when_asked(folder: FolderStore) -> None:
    """A file that is written between two questions is dated between their answers."""
    before = folder.now()
    written = folder.root / "a" / "other"
    written.write_bytes(b"")
    os.utime(folder.root / "a" / "1", (0, 0))
    after = folder.now()

    assert before.timestamp() <= written.stat().st_mtime <= after.timestamp()
    assert min(entry.modified.timestamp() for entry in folder.entries("a")) == 0


_FULL = """
import resource, signal, sys
from pathlib import Path
from quantgrid.errors import PlatformFault
from quantgrid.store.folder import FolderStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store, source = FolderStore(Path(sys.argv[1])), Path(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for call in (lambda: store.put_once("a/2", b"x" * 200_000),
             lambda: store.put_file_once("a/2", source)):
    try:
        call()
    except PlatformFault as fault:
        print(fault)
"""


def test_folder_leaves_nothing_when_there_is_no_room(folder: FolderStore, tmp_path: Path) -> None:
    """A put that meets the end of the room is a fault with the system's word, and no key."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * 200_000)

    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(folder.root), str(source)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )

    assert done.stdout.count("cannot write a/2; seen File too large") == 2
    assert list(folder.list("a")) == ["a/1"]
    assert [path.name for path in folder.root.rglob("*") if path.is_file()] == ["1"]


_STEPS = ((io, "open"), (os, "fsync"), (os, "link"), (os, "open"))
"""What a put asks of the system: a temporary file, its bytes on disk, the key, the folder."""


@pytest.mark.parametrize("call", ["put_once", "put_file_once"])
def test_folder_has_a_whole_key_or_none_when_any_step_of_a_put_fails(
    folder: FolderStore, tmp_path: Path, call: str
) -> None:
    """Failed or applied and told as failed: nothing half, no debris, and the repeat succeeds."""
    source = tmp_path / "source"
    source.write_bytes(b"22")
    there, told = [], []
    for number in range(20):
        key, left = f"b/{number}", [number]
        with pytest.MonkeyPatch.context() as patch:
            for module, name in _STEPS:
                patch.setattr(module, name, _failing(getattr(module, name), left))
            try:
                getattr(folder, call)(key, b"22" if call == "put_once" else source)
                break
            except PlatformFault as fault:
                told.append(str(fault))
        there.append(folder.find(key))
        assert [path for path in folder.root.rglob("*") if ".qgpart-" in path.name] == []
        assert folder.put_once(key, b"22") is (there[-1] is None)
        assert folder.get(key) == b"22"
    assert all(f"cannot write b/{n}; seen Input/output" in line for n, line in enumerate(told))
    assert set(there) == {None, b"22"}  # the last steps fail after the key is there


def _failing(real: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """A call of the system that fails when it is the one that is due."""

    def call(*words: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*words, **named)

    return call


@pytest.mark.parametrize("event", ["os.link", "open"])
def test_folder_has_no_key_when_its_writer_was_killed(folder: FolderStore, event: str) -> None:
    """A writer that dies before the link leaves debris that is no key, and that is cleared."""
    text = f"""
import os, signal, sys
from pathlib import Path
from quantgrid.store.folder import FolderStore
store = FolderStore(Path(sys.argv[1]))
def hook(event, args):
    if event == {event!r} and (event != "open" or str(args[0]) == {str(folder.root / "a")!r}):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
store.put_once("a/2", b"2")
"""
    done = subprocess.run(
        [sys.executable, "-c", text, str(folder.root)], timeout=BOUND_S, check=False
    )

    assert done.returncode == -9
    was_linked = event == "open"  # the folder is synced after the link
    assert ("a/2" in folder.list("a")) == was_linked
    assert folder.clear_dead() == 1
    assert folder.put_once("a/2", b"2") is not was_linked
    assert folder.get("a/2") == b"2"


def test_folder_clears_only_the_dead_when_asked(folder: FolderStore) -> None:
    """What a living process or another host has not finished stays; and it is no key."""
    host = socket.gethostname()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(timeout=BOUND_S)
    incoming = folder.root / ".incoming"
    for left in (f"{host}@{dead.pid}", f"{host}@{os.getpid()}", f"elsewhere@{dead.pid}"):
        (incoming / f"1.qgpart-{left}@00").touch()
        (folder.root / "a" / f"1.qgpart-{left}@00").touch()

    assert list(folder.list("a")) == ["a/1"]
    assert folder.clear_dead() == 1
    assert len(list(incoming.iterdir())) == 2
