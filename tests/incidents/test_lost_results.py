"""Results that existed, and a grid that was about to train them again.

Incident: a year of results lay in a bucket.  A machine whose network blinked while the plan was
made saw an empty place, and planned every cell anew; another one wrote half of its last result
before it was preempted, and the table was made from what was left.

Guard: `quantgrid.store.s3_calls.Calls` never takes silence for absence,
`quantgrid.archive.Archive.deposit` puts a record after its files and announces it around that, and
`quantgrid.archive.index.Index` shows every record that is there, whoever died in between.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core_parts import BOUND_S, KILLED, body, key_of, put, python_path
from quantgrid.archive import Archive
from quantgrid.archive.index import Index
from quantgrid.archive.verify import verify
from quantgrid.errors import PlatformFault
from quantgrid.store.s3 import S3Store
from s3_proxy import FAULTS, Proxy, Request, proxy
from s3_server import HASTY, Server

DATA = b"weights"
RECORD = body("weights", files={"w": DATA})

_DEPOSITOR = """
import sys
from pathlib import Path
from core_parts import *
from quantgrid.store import open_store
data = b"weights"
archive = Archive(open_store(sys.argv[1], Path()))
put(archive, Path("out"), body("weights", files={"w": data}), w=data)
print("deposited")
"""


@pytest.fixture
def between(seaweed: Server, s3_address: str) -> Iterator[Proxy]:
    """The network."""
    with proxy(seaweed.port) as made:
        yield made


@pytest.fixture
def address(between: Proxy, s3_address: str) -> str:
    """The archive at the far end of it."""
    return f"{s3_address.partition('?')[0]}?endpoint_url={between.endpoint}"


@pytest.fixture
def archive(address: str, tmp_path: Path) -> Archive:
    """It holds one result, and an index that was packed."""
    made = Archive(S3Store(address, tmp_path / "stores", HASTY))
    put(made, tmp_path / "out", body("cells", of="old"))
    Index(made.store).compact(at_least=1)
    return made


def _deposit(address: str, folder: Path) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", _DEPOSITOR, address],
        cwd=folder,
        env={**os.environ, **python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_result_is_whole_or_absent_when_its_writer_dies_at_any_request(
    archive: Archive, between: Proxy, address: str, tmp_path: Path
) -> None:
    """Killed at each of its writes, before or after the effect: the plan sees what is there."""
    at, was_killed = 0, True
    while was_killed:
        process, left = _start_doomed(between, address, tmp_path / f"{at}", at)
        said, _ = process.communicate(timeout=BOUND_S)
        between.plan = lambda _: ""
        was_killed = process.returncode == KILLED
        assert was_killed or "deposited" in said, said
        there = archive.store.size(key_of(RECORD)) is not None

        assert (key_of(RECORD) in archive.index()) == there
        assert key_of(body("cells", of="old")) in archive.index()
        assert verify(archive, tmp_path / "cache").damages == ()
        at += 1
        left.clear()
    assert at >= 5  # announcement, file, record, announcement, and its end
    assert archive.file(archive.record(key_of(RECORD)), "w", tmp_path).read_bytes() == DATA


def _start_doomed(
    between: Proxy, address: str, folder: Path, at: int
) -> tuple["subprocess.Popen[str]", list[int]]:
    """A depositor that is killed at its n-th write; every second kill after its effect."""
    left = [at]
    ready: list[int] = []

    def plan(request: Request) -> str:
        if request.method not in {"PUT", "POST", "DELETE"} or "probe" in request.path:
            return ""
        left[0] -= 1
        if left[0] >= 0 or not ready:
            return ""
        os.kill(ready[0], signal.SIGKILL)
        return "lost" if at % 2 else "reset"

    between.plan = plan
    process = _deposit(address, folder)
    ready.append(process.pid)
    return process, ready


@pytest.mark.parametrize("fault", [*FAULTS, "expired", "denied", "nobucket"])
def test_plan_is_stopped_and_never_empty_when_the_network_blinks(
    archive: Archive, between: Proxy, fault: str
) -> None:
    """From any request on, for as long as patience lasts: a fault, and not one record less."""
    full = archive.index()
    assert archive.find_identity()
    for first in range(3):
        begin = len(between.seen) + first

        def plan(request: Request, begin: int = begin) -> str:
            return fault if request.number >= begin else ""

        between.plan = plan
        try:
            shown = archive.index()
            assert archive.find_identity()
        except PlatformFault:
            continue
        finally:
            between.plan = lambda _: ""
        assert shown == full
    assert archive.index() == full
