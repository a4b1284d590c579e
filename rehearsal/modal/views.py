"""Volumes as Modal has them: one committed tree, and a view in every sandbox that stays as it was.

A view is a copy made at the mount.  What changed in it is committed file by file, the last writer
wins; what others committed is seen after a reload only.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

Seen = dict[str, tuple[int, int]]
"""Path below a view -> modification time and size when it was last equal to the committed tree."""


def mount(committed: Path, view: Path, *, read_only: bool) -> None:
    """Make a view."""
    shutil.copytree(committed, view, symlinks=True)
    if read_only:
        _forbid_writing(view)


def _forbid_writing(view: Path) -> None:
    """As far as modes go: root writes all the same, and nobody ever sees it."""
    for path in [view, *view.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)


def look(view: Path) -> Seen:
    """What a view holds now."""
    return dict(_files(view))


def _files(view: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder, _, names in os.walk(view):
        for name in names:
            path = Path(folder) / name
            try:
                found = path.lstat()
            except FileNotFoundError:  # renamed meanwhile
                continue
            yield str(path.relative_to(view)), (found.st_mtime_ns, found.st_size)


def commit(view: Path, seen: Seen, committed: Path) -> Seen:
    """Push what changed in a view since it was last equal; what it then holds."""
    now = look(view)
    for folder, names, _ in os.walk(view):
        for name in names:
            (committed / (Path(folder) / name).relative_to(view)).mkdir(parents=True, exist_ok=True)
    for name, kept in now.items():
        if seen.get(name) != kept:
            _push(view / name, committed / name)
    for name in seen.keys() - now.keys():
        (committed / name).unlink(missing_ok=True)
    return now


def _push(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.committing~")
    try:
        shutil.copy2(source, beside, follow_symlinks=False)
    except FileNotFoundError:  # gone since it was looked at
        return
    beside.replace(target)


def reload(view: Path, committed: Path) -> None:
    """See the committed tree afresh; while that happens the mount looks empty."""
    fresh = view.with_name(f"{view.name}.fresh")
    shutil.copytree(committed, fresh, symlinks=True)
    _empty(view)
    for path in fresh.iterdir():
        path.rename(view / path.name)
    fresh.rmdir()


def _empty(view: Path) -> None:
    for path in view.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def open_below(view: Path, processes: Iterable[int]) -> list[str]:
    """Files and working folders below a view that some processes have open now."""
    found = []
    for process in processes:
        place = Path(f"/proc/{process}")
        try:
            links = [place / "cwd", *(place / "fd").iterdir()]
        except OSError:  # it ended
            continue
        found += [target for link in links if (target := _target(link)) and _below(target, view)]
    return found


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _below(target: str, view: Path) -> bool:
    return target == str(view) or target.startswith(f"{view}/")
