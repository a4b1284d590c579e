"""The private copy of a program's folder: what it writes beside itself touches no neighbour."""

import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from quantgrid import layout
from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.own_files import Seen, code_digest, look
from quantgrid.own_script import Script

_FICLONE = 0x40049409
"""ioctl_ficlone(2): a copy that shares its blocks until one of the two is written."""

Stamps = Mapping[Path, tuple[int, int]]


def lay(source: Path, folder: Path, script: Script) -> Stamps:
    """Copy what is declared of a folder, and link its large data.

    Returns:
        Size and time of each file that is linked, for `refuse_written`.
    """
    folder.mkdir(parents=True)
    seen = _look(source, script)
    for name in seen.copied:
        copy_file(source / name, folder / name)
    for name in seen.links:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to((source / name).resolve())
    return _stamps([source / name for name in seen.links])


def refuse_changed(folder: Path, script: Script, planned: str) -> None:
    """Refuse a copy of another code than the one that was fingerprinted.

    Raises:
        Refusal: when files changed between the plan and this attempt.
    """
    seen = code_digest(folder, script)
    if seen != planned:
        raise Refusal(
            f"{script.program} or what it reads changed after the plan was made",
            expected=planned,
            seen=seen,
            do="Run the same command again: the plan then knows the new files.",
        )


def refuse_written(before: Stamps) -> None:
    """Say which linked files a program wrote through its links.

    Raises:
        DataFault: naming the first one.
    """
    after = _stamps(before)
    for path, stamp in before.items():
        if after[path] != stamp:
            raise DataFault(
                "the program changed data that is linked, and that its neighbours read",
                expected=f"{stamp[0]} bytes as before",
                seen=f"{after[path][0]} bytes",
                where=path,
                do="Restore it, and declare it under `inputs`, so that every attempt has a copy.",
            )


def matching(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Files that patterns match, relative to the folder; links are not followed into folders."""
    found = set()
    for pattern in patterns:
        for path in folder.glob(pattern):
            below = path.rglob("*") if path.is_dir() else [path]
            found |= {each.relative_to(folder).as_posix() for each in below if each.is_file()}
    return sorted(found)


def collect(made: Path, folder: Path, patterns: Sequence[str], out: Path) -> None:
    """Bring what is to be deposited into one flat folder.

    Args:
        made: What `{out}` named: all files in it.
        folder: The private copy.
        patterns: What of it is kept.
        out: The folder that is deposited.

    Raises:
        DataFault: when a pattern matches nothing, or two files have one name.
    """
    missing = [pattern for pattern in patterns if not matching(folder, [pattern])]
    if missing:
        there = ", ".join(matching(folder, ["*"])[:12])
        raise DataFault("the program left no file to keep", expected=missing[0], seen=there)
    for root, names in ((made, matching(made, ["*"])), (folder, matching(folder, patterns))):
        for name in names:
            target = out / layout.blob_name(name)
            if target.exists():
                raise DataFault("two files to keep have one name", seen=name, where=root)
            copy_file(root / name, target)


def copy_file(source: Path, target: Path) -> None:
    """Copy bytes and mode, sharing blocks where the file system can; parents are made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reader, target.open("wb") as writer:
        if not _cloned(reader.fileno(), writer.fileno()):
            while os.sendfile(writer.fileno(), reader.fileno(), None, 1 << 24):
                pass
        os.fchmod(writer.fileno(), os.fstat(reader.fileno()).st_mode | 0o200)


def _cloned(reader: int, writer: int) -> bool:
    with suppress(OSError):
        fcntl.ioctl(writer, _FICLONE, reader)
        return True
    return False


def _look(source: Path, script: Script) -> Seen:
    try:
        return look(source, script)
    except FileNotFoundError as error:
        raise ConfigRefusal(
            "the folder of the script is not what the grid was read with",
            expected=script.program,
            seen=f"no file {error.filename}",
            where=source,
        ) from error


def _stamps(paths: Sequence[Path] | Stamps) -> dict[Path, tuple[int, int]]:
    facts = {path: path.stat() for path in paths}
    return {path: (fact.st_size, fact.st_mtime_ns) for path, fact in facts.items()}
