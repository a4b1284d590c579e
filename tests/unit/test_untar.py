"""A tar gives files and folders below one folder, on every Python that the project supports."""

import io
import tarfile
from pathlib import Path

import pytest

from quantgrid.errors import DataFault
from quantgrid.untar import extract


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> tarfile.TarFile:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    return tarfile.open(fileobj=buffer)


def _member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o600) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.linkname = kind, mode, "/etc/passwd"
    return member


def test_files_come_out_with_their_right_to_run_when_extracted(tmp_path: Path) -> None:
    """Folders that are not members are made; other rights are not taken over."""
    plain, program = _member("a/b/data", mode=0o4666), _member("run", mode=0o700)
    with _tar(
        (plain, b"x" * 70_000), (program, b"#!"), (_member("d", tarfile.DIRTYPE), b"")
    ) as tar:
        extract(tar, tmp_path)

    assert (tmp_path / "a" / "b" / "data").read_bytes() == b"x" * 70_000
    assert (tmp_path / "a" / "b" / "data").stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d").is_dir()


@pytest.mark.parametrize(
    "member",
    [
        _member("../outside"),
        _member("/outside"),
        _member("link", tarfile.SYMTYPE),
        _member("hard", tarfile.LNKTYPE),
        _member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda member: member.name,
)
def test_tar_is_refused_when_it_reaches_outside(member: tarfile.TarInfo, tmp_path: Path) -> None:
    """Links, devices and names that lead out are no sources."""
    with _tar((member, b"")) as tar, pytest.raises(DataFault, match="no source has"):
        extract(tar, tmp_path / "in")

    assert not (tmp_path / "outside").exists()
