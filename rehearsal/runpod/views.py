"""What a pod sees of a network volume: the volume itself, or a frozen view of it.

Nothing public says how old a pod's view of a RunPod volume may be, so the double has both.  What is
written to a frozen view reaches the volume within a second; what others write does not reach it.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_SEEN = ".rehearsal-view"


def make(source: Path, place: Path, *, is_frozen: bool) -> Path:
    """The folder that stands for a volume in one pod, anew at each start of its container."""
    if place.is_symlink():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)
    if is_frozen:
        shutil.copytree(source, place, ignore=shutil.ignore_patterns(_SEEN))
        stamps = {str(path.relative_to(place)): path.stat().st_mtime_ns for path in _files(place)}
        (place.parent / _SEEN).write_text("\n".join(f"{v} {k}" for k, v in stamps.items()))
    else:
        place.symlink_to(source, target_is_directory=True)
    return place


def push(place: Path, source: Path) -> None:
    """Copy what changed in a frozen view since it was made into the volume; last writer wins."""
    if place.is_symlink() or not place.exists():
        return
    seen = (place.parent / _SEEN).read_text().splitlines()
    known = {name: int(stamp) for stamp, _, name in (line.partition(" ") for line in seen)}
    for path in _files(place):
        name, stamp = str(path.relative_to(place)), path.stat().st_mtime_ns
        if known.get(name) != stamp:
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copy2(path, part)
            part.replace(target)
            known[name] = stamp
    (place.parent / _SEEN).write_text("\n".join(f"{v} {k}" for k, v in known.items()))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
