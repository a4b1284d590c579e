"""Checks of a desk: everything that a grid needs of the machine that it is started on."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

from quantgrid import durability, volume
from quantgrid.archive import Archive
from quantgrid.checks import Finding, Level, _clock, _locks, _views, attempt
from quantgrid.load import Platform, Settings
from quantgrid.store import open_store

_NEEDED = ("snakemake", "torch", "safetensors", "numpy", "pandas", "matplotlib")
_LOW_BYTES = 2 << 30
_GPU_WITHIN_S = 20


def check(root: Path, settings: Settings, platform: Platform, second: Path | None) -> list[Finding]:
    """Every finding, in the order in which trouble costs most."""
    place = root / settings.volume
    found = [
        attempt("volume", lambda: _volume(place, platform)),
        attempt("identity", lambda: _identity(place, platform)),
        attempt("archive", lambda: _archive(settings, root)),
        _locks.check("locks", root, is_needed=True),
        _locks.check("locks", place, is_needed=False),
        _views.check(place, platform, second),
        _disk(root),
        _python(),
        _packages(),
        _devices(platform),
        _clock.check(),
        attempt("skew", lambda: _skew(settings, root)),
    ]
    return list(dict.fromkeys(found))  # a volume on the same disk has the same locks


def _volume(place: Path, platform: Platform) -> Finding:
    mount = durability.prove(place, is_durable=platform.durable, pin=platform.volume_id)
    if mount.is_fleeting:
        return Finding(
            Level.WARN,
            "volume",
            f"{mount}: it ends with this container or its power",
            "Corpora and checkpoints would go with it; mount a disk there.",
        )
    return Finding(Level.OK, "volume", f"{mount}, {mount.free_bytes:,} bytes free")


def _identity(place: Path, platform: Platform) -> Finding:
    if not place.exists() or not any(place.iterdir()):
        return Finding(Level.OK, "identity", "none yet: the first corpus gives one")
    seen = volume.identify(place)
    pinned = "as pinned" if platform.volume_id else "not pinned"
    said = f"volume {seen.id} of workspace {seen.workspace}, created {seen.created}, {pinned}"
    return Finding(Level.OK, "identity", said)


def _archive(settings: Settings, root: Path) -> Finding:
    archive = Archive(open_store(settings.archive, root))
    identity, address = archive.find_identity(), archive.store.address
    if identity is None:
        return Finding(
            Level.WARN,
            "archive",
            f"empty: {address}",
            "Right for a first run; else another place is meant: --archive or config.yaml.",
        )
    return Finding(Level.OK, "archive", f"archive {identity} at {address}")


def _skew(settings: Settings, root: Path) -> Finding:
    archive = Archive(open_store(settings.archive, root))
    if archive.find_identity() is None:
        return Finding(Level.OK, "skew", "no archive yet whose clock could be asked")
    return _clock.compare(archive.store)


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free
    said = f"{free:,} bytes free under {root}"
    if free < _LOW_BYTES:
        return Finding(Level.WARN, "disk", said, "Logs, receipts and attempts are written here.")
    return Finding(Level.OK, "disk", said)


def _python() -> Finding:
    return Finding(Level.OK, "python", f"{sys.version.split()[0]} at {sys.executable}")


def _packages() -> Finding:
    missing = [name for name in _NEEDED if not list(importlib.metadata.distributions(name=name))]
    if missing:
        return Finding(Level.REFUSE, "packages", f"missing {', '.join(missing)}", "make setup")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _NEEDED]
    return Finding(Level.OK, "packages", ", ".join(versions))


def _devices(platform: Platform) -> Finding:
    tool = shutil.which("nvidia-smi")
    listed = []
    if tool:
        done = subprocess.run(
            [tool, "-L"], capture_output=True, text=True, timeout=_GPU_WITHIN_S, check=False
        )
        listed = done.stdout.splitlines() if done.returncode == 0 else []
    if platform.device.startswith("cuda") and not listed:
        return Finding(
            Level.REFUSE,
            "devices",
            f"the platform asks for {platform.device}, and the driver shows no GPU",
            "Mend the driver, or set `device: cpu` in the file of the platform.",
        )
    return Finding(Level.OK, "devices", "; ".join(listed) or "no GPU, and none is asked for")
