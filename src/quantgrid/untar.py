"""Takes a tar apart: plain files and folders below one folder, and nothing else.

Python before 3.11.4 has no `filter` for that (https://docs.python.org/3.11/library/tarfile.html).
"""

import tarfile
from pathlib import Path, PurePosixPath

from quantgrid.errors import DataFault


def extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Make the files of a tar, with the right to run those that had it.

    Raises:
        DataFault: for a member that is no file or folder, or lies outside; some are made already.
    """
    for member in tar:
        name = PurePosixPath(member.name)
        is_plain = member.isreg() or member.isdir()
        if not is_plain or name.is_absolute() or ".." in name.parts:
            raise DataFault(
                "a tar holds what no source has",
                expected="files and folders with relative names",
                seen=f"{member.name} (type {member.type.decode()})",
            )
        path = folder / name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with tar.extractfile(member) as source, path.open("wb") as made:  # type: ignore[union-attr]
            made.write(source.read())
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
