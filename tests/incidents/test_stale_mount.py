"""A real mount of a bucket that goes on showing what it once saw.

Incident: a corpus was written on one machine, and another one that had looked at the volume before
went on seeing the half of it, for as long as it ran, and trained on that.

Guard: `quantgrid.corpus.view.look` compares what is seen with what the seal vouches for, and
`quantgrid.reload.reloader` asks the mount for a fresh view.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from corpus_copies import bring, names
from detached import await_true
from quantgrid.checks import Level, _views
from quantgrid.corpus.view import Reload, View
from quantgrid.errors import CorpusRefusal, PlatformFault
from quantgrid.load import load_platform
from quantgrid.reload import reloader
from s3_server import KEY, SECRET, Server, free_ports, program
from small_corpus import CONTEXT, USABLE, SmallCorpus, declare

_NEVER = ["--dir-cache-time", "1000h", "--poll-interval", "0", "--vfs-cache-mode", "full"]


@contextmanager
def mounted(server: Server, bucket: str, point: Path) -> Iterator[str]:
    """A mount of a bucket by rclone whose listings are never refreshed; its remote control."""
    point.mkdir(parents=True)
    port, binary = free_ports(1), program("rclone")
    remote = f":s3,provider=Other,endpoint='{server.endpoint}':{bucket}"
    control = ["--rc", "--rc-addr", f"127.0.0.1:{port}", "--rc-no-auth"]
    cache = ["--cache-dir", str(point.with_name(f"{point.name}-cache")), "--vfs-write-back", "0s"]
    assert binary is not None
    keys = {"RCLONE_S3_ACCESS_KEY_ID": KEY, "RCLONE_S3_SECRET_ACCESS_KEY": SECRET}
    with point.with_name(f"{point.name}.log").open("wb") as log:
        mount = subprocess.Popen(
            [
                binary,
                "--config",
                os.devnull,
                "mount",
                remote,
                str(point),
                *_NEVER,
                *control,
                *cache,
            ],
            env={**os.environ, **keys},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            await_true(lambda: point.is_mount() or mount.poll() is not None, "never mounted")
            if mount.poll() is not None:
                pytest.skip(f"rclone cannot mount here: {point.with_name(log.name).name}")
            yield f"127.0.0.1:{port}"
        finally:
            subprocess.run(
                [program("fusermount3") or "", "-uz", str(point)], check=False, timeout=60
            )
            with suppress(subprocess.TimeoutExpired):
                mount.wait(timeout=180)
            mount.kill()
            mount.wait(timeout=180)


@pytest.fixture
def machines(tmp_path: Path, seaweed: Server) -> Iterator[tuple[Path, Path, str]]:
    """Two machines' mounts of one bucket, the consumer's remote control last."""
    missing = [
        name for name in ("rclone", "fusermount3") if not (program(name) or shutil.which(name))
    ]
    if missing or not Path("/dev/fuse").exists():
        pytest.skip(f"no FUSE here: {', '.join(missing) or '/dev/fuse'} is missing")
    bucket = f"v{os.urandom(4).hex()}"
    seaweed.bucket(bucket)
    producer, consumer = tmp_path / "producer", tmp_path / "consumer"
    with mounted(seaweed, bucket, producer), mounted(seaweed, bucket, consumer) as control:
        yield producer, consumer, control


def test_stale_mount_is_refused_until_it_is_reloaded(
    tmp_path: Path, machines: tuple[Path, Path, str]
) -> None:
    """Half a corpus seen, all of it there: refused with both numbers; after a reload it opens."""
    producer, consumer, control = machines
    local = declare(tmp_path / "desk")
    local.produce()
    local.seal()
    here, there = replace(local, volume=producer), replace(local, volume=consumer)
    reload = reloader(f"rclone:{control}")
    bring(local, here, num_shards=2)
    _reload_until(reload, there, names(here.folder))
    half = names(there.folder)
    bring(local, here, num_shards=6)

    with pytest.raises(CorpusRefusal, match=r"expected 7 files; seen 2 files; missing shard-00002"):
        there.view()
    assert names(there.folder) == half, "the mount refreshed itself: it proves nothing"

    _reload_until(reload, there, names(here.folder))
    view = View.open(
        there.folder, there.sentinel, planned_tokens=USABLE, context=CONTEXT, reload=reload
    )
    assert view is not None


def test_doctor_reads_back_from_the_bucket_and_not_from_a_stale_mount(
    root: Path, machines: tuple[Path, Path, str]
) -> None:
    """The remote control sees what reached the bucket; the other mount remembers an empty one."""
    producer, consumer, control = machines
    platform = replace(load_platform(root, "local"), reload=f"rclone:{control}")
    assert names(producer) == []

    proved = _views.check(consumer, platform, None)
    stale = _views.check(consumer, platform, producer)

    assert proved.level is Level.OK, proved
    assert f"read back from {control}" in proved.seen
    assert stale.level is Level.REFUSE, stale
    assert f"was not seen from {producer}" in stale.seen
    assert names(consumer) == []


def _reload_until(reload: Reload, corpus: SmallCorpus, wanted: list[str]) -> None:
    """Reload until all wanted are seen: an upload takes a moment to reach the bucket."""

    def is_seen() -> bool:
        reload(corpus.folder)
        return names(corpus.folder) == wanted

    await_true(is_seen, f"a reload never shows {wanted}, but {names(corpus.folder)}")


def test_reload_is_a_fault_when_the_mount_does_not_answer() -> None:
    """Without an answer nobody knows how old the view is."""
    with pytest.raises(PlatformFault, match="gave none"):
        reloader(f"rclone:127.0.0.1:{free_ports(1)}")(Path())
