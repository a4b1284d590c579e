"""Ceph on loopback: a monitor, one storage daemon in memory and the gateway, with own keys."""

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from s3_server import BOUND_S, KEY, SECRET, Server, free_ports, program, running

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool")
_CONF = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon},v1:127.0.0.1:{mon1}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon max pg per osd = 1000
run dir = {folder}/run
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
log file = {folder}/logs/$name.log
mon cluster log file = {folder}/logs/cluster.log
crash dir = {folder}/run
keyring = {folder}/keys
[mon.a]
mon data = {folder}/mon
[osd]
osd objectstore = memstore
memstore device bytes = 2147483648
osd data = {folder}/osd/$id
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw thread pool size = 32
"""
_ROOT = ("--setuser", "root", "--setgroup", "root")


def is_installed() -> bool:
    """Whether Debian's packages ceph-mon, ceph-osd and radosgw are here."""
    return all(program(name) for name in PROGRAMS)


@contextmanager
def ceph(folder: Path) -> Iterator[Server]:
    """A gateway with one user; ends with all its daemons."""
    port = free_ports(3)
    for name in ("run", "logs", "mon", "osd/0"):
        (folder / name).mkdir(parents=True)
    fsid = str(uuid.uuid4())
    conf = _CONF.format(fsid=fsid, folder=folder, port=port, mon=port + 1, mon1=port + 2)
    (folder / "ceph.conf").write_text(conf)
    environment = {"CEPH_CONF": str(folder / "ceph.conf")}

    def call(*words: str, is_tried: bool = False) -> bool:
        own = {**os.environ, **environment}
        done = subprocess.run(words, env=own, capture_output=True, timeout=BOUND_S, check=False)
        assert is_tried or done.returncode == 0, (words, done.stderr[-2000:])
        return done.returncode == 0

    _make_keys(folder, call)
    monitors = ["--addv", "a", f"[v2:127.0.0.1:{port + 1},v1:127.0.0.1:{port + 2}]"]
    call("monmaptool", "--create", *monitors, "--fsid", fsid, str(folder / "monmap"))
    mon = ["ceph-mon", "-i", "a", *_ROOT]
    call(*mon, "--mkfs", "--monmap", str(folder / "monmap"), "--keyring", str(folder / "keys"))
    with ExitStack() as daemons:
        daemons.enter_context(_daemon([*mon, "-f"], folder, environment))
        _until(lambda: call("ceph", "--connect-timeout", "5", "-s", is_tried=True))
        own = str(uuid.uuid4())
        call("ceph", "osd", "new", own, "0")
        osd = ["ceph-osd", "-i", "0", *_ROOT]
        call(*osd, "--mkfs", "--osd-uuid", own)
        daemons.enter_context(_daemon([*osd, "-f"], folder, environment))
        user = ["--uid", "lab", "--display-name", "lab", "--access-key", KEY, "--secret", SECRET]
        call("radosgw-admin", "user", "create", *user)
        gateway = ["radosgw", "-n", "client.rgw", "-f", *_ROOT]
        daemons.enter_context(running(gateway, folder, port, **environment))
        yield Server(port)


def _make_keys(folder: Path, call: Callable[..., bool]) -> None:
    keys = str(folder / "keys")
    made = ["--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"]
    call("ceph-authtool", *made)
    for name in ("client.admin", "client.rgw", "osd.0"):
        caps = [word for kind in ("mon", "osd", "mgr") for word in ("--cap", kind, "allow *")]
        call("ceph-authtool", keys, "--gen-key", "-n", name, *caps)


def _daemon(
    command: list[str], folder: Path, environment: dict[str, str]
) -> AbstractContextManager[None]:
    return running(command, folder, 0, **environment)


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + BOUND_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.2)
