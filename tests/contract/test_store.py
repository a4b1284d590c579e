"""What every store adapter must do; a new adapter joins ADAPTERS and nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.store import Store, open_store
from quantgrid.store.folder import FolderStore
from s3_ceph import ceph, is_installed
from s3_proxy import proxy, seldom
from s3_server import Server

ADAPTERS = (
    "folder",
    "s3",
    "s3 behind faults",
    pytest.param("ceph", marks=pytest.mark.nightly),
)
BOUND_S = 180.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ceph's gateway, where Debian's packages are installed."""
    if not is_installed():
        pytest.skip("needs Debian's ceph-mon, ceph-osd and radosgw")
    with ceph(tmp_path_factory.mktemp("ceph")) as server:
        server.bucket("shared")
        yield server


@pytest.fixture(params=ADAPTERS)
def store(request: pytest.FixtureRequest, tmp_path: Path, credentials: None) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "folder":
        yield FolderStore(tmp_path / "store")
        return
    if request.param == "ceph":
        server = request.getfixturevalue("gateway")
        address = server.address("shared", f"grid-{os.urandom(8).hex()}")
        yield open_store(address, tmp_path / "copy")
        return
    address = request.getfixturevalue("s3_address")
    place, _, endpoint = address.partition("?endpoint_url=")
    share = 0.2 if "faults" in request.param else 0.0
    with proxy(int(endpoint.rpartition(":")[2]), seldom(seed=7, share=share)) as between:
        yield open_store(f"{place}?endpoint_url={between.endpoint}", tmp_path / "copy")


@pytest.mark.parametrize("key", ["plain", "a/b/c", "a b/ü~@", "a/.hidden"])
def test_store_gives_back_bytes_when_they_were_put(store: Store, key: str) -> None:
    """Every reading call agrees on what was put."""
    data = bytes(range(256))

    assert store.put_once(key, data)

    assert store.get(key) == data
    assert store.find(key) == data
    assert store.size(key) == len(data)


def test_store_finds_nothing_when_nothing_was_put(store: Store, tmp_path: Path) -> None:
    """Absence is told apart from failure, and looking makes nothing."""
    assert store.find("a/b") is None
    assert store.size("a/b") is None
    assert list(store.list("a")) == []
    assert list(store.entries("a")) == []
    with pytest.raises(KeyError):
        store.get("a/b")
    with pytest.raises(KeyError):
        store.fetch("a/b", tmp_path / "cache")
    assert not (tmp_path / "store").exists()


def test_store_keeps_the_first_bytes_when_put_twice(store: Store, tmp_path: Path) -> None:
    """A key is created once, whichever call comes second."""
    source = tmp_path / "source"
    source.write_bytes(b"file")

    assert store.put_once("key", b"first")
    assert not store.put_once("key", b"second")
    assert not store.put_file_once("key", source)

    assert store.get("key") == b"first"


def test_store_puts_a_file_when_it_is_new(store: Store, tmp_path: Path) -> None:
    """The bytes of a file are copied: the source may change afterwards."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)

    assert store.put_file_once("deep/key", source)
    source.write_bytes(b"changed")

    assert store.size("deep/key") == 3_000_000
    assert store.fetch("deep/key", tmp_path / "cache").read_bytes() == b"x" * 3_000_000


def test_store_lists_keys_below_a_prefix_when_asked(store: Store) -> None:
    """A prefix is a folder: neighbours with the same beginning are not below it."""
    for key in ("a/1", "a/b/2", "ab/3", "c"):
        store.put_once(key, b"")

    assert sorted(store.list("a")) == ["a/1", "a/b/2"]


def test_store_tells_size_and_age_when_it_lists_entries(store: Store) -> None:
    """Entries are the keys of the list, dated in UTC by the clock that `now` tells."""
    before = store.now()
    for key, data in (("a/1", b"x"), ("a/b/2", b"xyz"), ("ab/3", b"")):
        store.put_once(key, data)
    after = store.now()

    entries = sorted(store.entries("a"))

    assert [(entry.key, entry.size_bytes) for entry in entries] == [("a/1", 1), ("a/b/2", 3)]
    second = timedelta(seconds=1)  # the grain of an S3 date
    assert all(before - second <= entry.modified <= after + second for entry in entries)
    assert all(entry.modified.tzinfo is UTC for entry in entries)
    assert sorted(store.list("a")) == ["a/1", "a/b/2"]


def test_store_has_no_new_key_when_asked_for_its_time(store: Store) -> None:
    """Asking for the time leaves nothing behind, and time does not go back."""
    store.put_once("a/1", b"")

    times = [store.now() for _ in range(3)]

    assert times == sorted(times)
    assert times[0].tzinfo is UTC
    assert list(store.list("a")) == ["a/1"]
    assert store.clear_dead() == 0


def test_store_forgets_a_key_when_deleted(store: Store) -> None:
    """A deleted key may be created again; deleting nothing is no error."""
    store.put_once("hold", b"1")

    store.delete("hold")
    store.delete("hold")

    assert store.find("hold") is None
    assert store.put_once("hold", b"2")


@pytest.mark.parametrize("key", ["/etc/passwd", "../outside", "a/../../outside"])
def test_store_refuses_a_key_when_it_leads_outside(store: Store, key: str) -> None:
    """No key reaches beyond the store."""
    for call in (store.find, store.size, store.delete, lambda k: store.put_once(k, b"")):
        with pytest.raises(ConfigRefusal, match="is not a key"):
            call(key)


def test_store_has_an_address_when_asked(store: Store, tmp_path: Path) -> None:
    """The address is what a person would type to open the same store."""
    store.put_once("key", b"1")

    assert open_store(store.address, tmp_path / "elsewhere").get("key") == b"1"


# -- several writers ------------------------------------------------------------------------------

_RACER = """
import sys, json
from quantgrid.store import open_store
from pathlib import Path
store, name = open_store(sys.argv[1], Path()), sys.argv[2].encode()
source = Path(sys.argv[3]); source.write_bytes(name)
print("ready", flush=True); sys.stdin.readline()
won = [store.put_file_once(f"k/{i}", source) if i % 2 else store.put_once(f"k/{i}", name)
       for i in range(24)]
print(json.dumps(won))
"""


def test_store_creates_once_when_processes_race(store: Store, tmp_path: Path) -> None:
    """Of three processes that create the same keys at once, exactly one is told that it did."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, store.address, name, str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = {
        name: json.loads(racer.communicate(timeout=BOUND_S)[0])
        for name, racer in zip("abc", racers, strict=True)
    }

    for number in range(24):
        winners = [name for name in "abc" if won[name][number]]
        assert len(winners) == 1
        assert store.get(f"k/{number}") == winners[0].encode()


# -- addresses -----------------------------------------------------------------------------------


def test_open_store_finds_a_folder_when_relative_or_absolute(tmp_path: Path) -> None:
    """A relative address is below the working copy."""
    assert open_store("a", tmp_path).address == str(tmp_path / "a")
    assert open_store(str(tmp_path / "b"), Path("/nowhere")).address == str(tmp_path / "b")


def test_open_store_refuses_when_no_adapter_serves_the_address(tmp_path: Path) -> None:
    """An address of another kind is not taken for a folder's name."""
    with pytest.raises(ConfigRefusal, match="gs://"):
        open_store("gs://bucket/x", tmp_path)
    assert list(tmp_path.iterdir()) == []
