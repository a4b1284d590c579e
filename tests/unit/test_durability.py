"""A volume that would lose the work is refused before the work begins."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quantgrid import durability, volume
from quantgrid.clock import SystemClock
from quantgrid.durability import prove
from quantgrid.errors import PlatformFault, VolumeRefusal


def test_mount_is_the_nearest_when_found(tmp_path: Path) -> None:
    """A folder that does not exist yet lies where its parent lies."""
    mount = durability.look(tmp_path / "not" / "there")

    assert tmp_path.is_relative_to(mount.point)
    assert mount.size_bytes > 0
    assert durability.look(Path("/proc")).kind == "proc"


def test_volume_is_refused_when_it_has_no_capacity() -> None:
    """A mount of zero bytes is what an unattached volume looks like."""
    with pytest.raises(VolumeRefusal, match=r"expected a capacity; seen 0 bytes, proc at /proc"):
        prove(Path("/proc"), is_durable=False)


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no tmpfs at /dev/shm")  # noqa: S108
def test_volume_is_refused_when_it_is_memory() -> None:
    """A tmpfs ends with the power: refused where durability is promised, else allowed."""
    place = Path("/dev/shm")  # noqa: S108
    with pytest.raises(VolumeRefusal, match="seen tmpfs at /dev/shm"):
        prove(place, is_durable=True)

    assert prove(place, is_durable=False).is_fleeting


def test_volume_is_refused_when_there_is_no_room(tmp_path: Path) -> None:
    """The plan is larger than what is free: both numbers are named."""
    with pytest.raises(VolumeRefusal, match=r"expected room for 1,152,921,504,606,846,976 bytes"):
        prove(tmp_path, is_durable=False, need_bytes=1 << 60)


def test_twins_are_refused_both_ways_when_pinned(tmp_path: Path) -> None:
    """Each of two volumes is refused where the other is pinned, with both identities."""
    one, other = (volume.establish(tmp_path / name, SystemClock()) for name in ("one", "other"))

    for folder, its, pin in (("one", one, other), ("other", other, one)):
        with pytest.raises(VolumeRefusal) as refused:
            prove(tmp_path / folder, is_durable=False, pin=pin.id)
        assert f"expected volume {pin.id}; seen volume {its.id} of" in str(refused.value)
        assert "Nothing is lost" in str(refused.value)
    prove(tmp_path / "one", is_durable=False, pin=one.id)


def test_proof_leaves_nothing_behind_when_it_succeeds(tmp_path: Path) -> None:
    """The probe is removed."""
    prove(tmp_path / "v", is_durable=False)

    assert list((tmp_path / "v").iterdir()) == []


def test_volume_is_refused_when_nothing_can_be_written() -> None:
    """A place with capacity that takes no file is a fault of the machine, and says which."""
    with pytest.raises((PlatformFault, VolumeRefusal), match="nothing was started"):
        prove(Path("/sys"), is_durable=False)


_IN_NAMESPACE = """
set -e
mkdir -p "$1/lower" "$1/upper" "$1/work" "$1/v" "$1/disk"
mount -t overlay overlay -o lowerdir="$1/lower",upperdir="$1/upper",workdir="$1/work" "$1/v"
exec "$2" -c "
from pathlib import Path
from quantgrid.durability import prove
from quantgrid.errors import VolumeRefusal
try:
    prove(Path('$1/v'), is_durable=True)
except VolumeRefusal as refusal:
    print(refusal)
"
"""


def test_volume_is_refused_when_it_is_a_layer_of_a_container(tmp_path: Path) -> None:
    """A real overlay in a mount namespace of its own, as in a container without its volume."""
    base = Path("/dev/shm") / tmp_path.name if os.access("/dev/shm", os.W_OK) else tmp_path  # noqa: S108
    command = ["unshare", "-m", "sh", "-c", _IN_NAMESPACE, "sh", str(base), sys.executable]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")

    assert "seen overlay at" in done.stdout, done.stderr
