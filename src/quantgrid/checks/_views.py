"""Whether what is written to a volume is seen from elsewhere: by another mount, or by its server.

A process reads its own writes from memory, also where nothing of them ever left the machine.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from quantgrid import durability, layout, reload
from quantgrid.checks import Finding, Level
from quantgrid.errors import PlatformFault
from quantgrid.load import Platform

_WITHIN_S = 30.0
"""A mount of a bucket uploads five seconds after a file is closed (rclone, --vfs-write-back)."""
_LOOK_EVERY_S = 0.2
_PROOF_BYTES = 4096


def check(place: Path, platform: Platform, second: Path | None) -> Finding:
    """Write a proof to a volume and read it back from another view, where there is one."""
    address = reload.find_control(platform.reload)
    if second is not None and _is_same(place, second):
        return _unproved(platform, f"{second} is the same mount as {place}")
    if second is None and address is None:
        return _unproved(platform, "no other view of it is known")
    path = place / layout.volume_probe(f"view-{os.getpid()}-{os.urandom(4).hex()}")
    proof = os.urandom(_PROOF_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(proof)
            file.flush()
            os.fsync(file.fileno())
        return _read_back(path, proof, second, address)
    except (OSError, PlatformFault) as error:
        return Finding(Level.REFUSE, "view", str(error))
    finally:
        with suppress(OSError):
            path.unlink()


def _is_same(place: Path, second: Path) -> bool:
    return second.resolve() == place.resolve() or (
        durability.look(second).point == durability.look(place).point
    )


def _read_back(path: Path, proof: bytes, second: Path | None, address: str | None) -> Finding:
    where, deadline = str(second or address), time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        if _seen(path, second, address) == hashlib.md5(proof, usedforsecurity=False).hexdigest():
            return Finding(Level.OK, "view", f"what is written here is read back from {where}")
        time.sleep(_LOOK_EVERY_S)
    return Finding(
        Level.REFUSE,
        "view",
        f"what is written here was not seen from {where} within {_WITHIN_S:.0f} s",
        "Work would be lost with this machine: mend the mount, or mount the same volume twice.",
    )


def _seen(path: Path, second: Path | None, address: str | None) -> str | None:
    """MD5 of the proof as the other view sees it; None while it sees none."""
    if second is not None:
        with suppress(OSError):
            data = (second / path.name).read_bytes()
            return hashlib.md5(data, usedforsecurity=False).hexdigest()
        return None
    point = Path(durability.look(path).point)
    return reload.find_stored(address or "", path.resolve().relative_to(point).as_posix())


def _unproved(platform: Platform, why: str) -> Finding:
    if not platform.durable:
        return Finding(Level.OK, "view", f"not proved from a second view: {why}")
    return Finding(
        Level.WARN,
        "view",
        f"not proved from a second view: {why}",
        "Mount the volume a second time and name that folder with --second.",
    )
