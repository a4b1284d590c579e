"""What a machine needs of a working copy, by content: one deterministic archive, and small files.

Equal files make equal bytes, so a bundle is stored once and its digest is its name.  Nothing that
git ignores, no results, no history and nothing that looks like a secret gets into it.
"""

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from quantgrid import atomic, layout
from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.store import Store
from quantgrid.untar import extract

BUNDLE_LIMIT = 32 << 20
"""Bytes; sources are a hundredth of it, data belongs on a volume or into the archive."""
FILES_LIMIT = 16 << 20
"""Bytes of all small files of one job together: receipts are kilobytes."""

_SECRET_NAME = re.compile(
    r"\.env(\..*)?|\.netrc|\.pypirc|\.?credentials(\..*)?|id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|key|p12)"
)
_SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\brp[as]_[0-9A-Za-z]{32,}"
    rb"|\bhf_[0-9A-Za-z]{30,}|\bgh[pousr]_[0-9A-Za-z]{36}|\bas-[0-9A-Za-z]{22}\b"
)
"""Keys as clouds and services spell them."""


class Bundle(NamedTuple):
    """A bundle: the sha256 of its bytes, and the bytes (an uncompressed tar)."""

    digest: str
    data: bytes


class Item(NamedTuple):
    """A small file: its path in the working copy, and what it has to be."""

    path: str
    digest: str
    size_bytes: int


# -- the sources -----------------------------------------------------------------------------------


def pack(root: Path, also: Iterable[str] = (), limit_bytes: int = BUNDLE_LIMIT) -> Bundle:
    """The bundle of a working copy as it is now, uncommitted changes included.

    Args:
        root: Folder of the Snakefile.
        also: Further files and folders below it, such as that of somebody's own program.
        limit_bytes: What it may hold.

    Raises:
        Refusal: for something that looks like a secret, a link, or too many bytes.
    """
    contents, size_bytes = {}, 0
    for name, path in sorted(_sources(root, also).items()):
        data = path.read_bytes()
        _refuse_secret(name, data)
        size_bytes += len(data)
        if size_bytes > limit_bytes:
            raise _too_large(f"the sources with {name}", size_bytes, limit_bytes)
        contents[name] = (data, os.access(path, os.X_OK))
    data = _tar(contents)
    return Bundle(sha256(data).hexdigest(), data)


def _sources(root: Path, also: Iterable[str]) -> dict[str, Path]:
    declared = (*layout.WORKFLOW_PARTS, *layout.CONFIG_PARTS, *layout.CODE_PARTS, *also)
    parts = [root / part for part in declared] + [layout.source_root(root)]
    names = {_name(path, root): path for part in parts for path in _below(part)}
    known = _known_to_git(root)
    return names if known is None else {n: p for n, p in names.items() if n in known}


def _below(part: Path) -> Iterator[Path]:
    if part.is_symlink():
        raise _link(part)
    if part.is_file():
        yield part
    elif part.is_dir():
        for each in part.iterdir():
            if not _is_made(each):
                yield from _below(each)


def _is_made(path: Path) -> bool:
    """Whether a name is what tools make beside sources."""
    return path.name == "__pycache__" or path.suffix in {".pyc", ".egg-info"} or path.name == ".git"


def _known_to_git(root: Path) -> frozenset[str] | None:
    """All files that git does not ignore; None where there is no git or no repository."""
    words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=True)  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return None
    return frozenset(os.fsdecode(done.stdout).split("\0"))


def _refuse_secret(name: str, data: bytes) -> None:
    seen = "its name" if _SECRET_NAME.fullmatch(PurePosixPath(name).name) else ""
    found = _SECRET.search(data)
    if seen or found:
        line = data[: found.start()].count(b"\n") + 1 if found else 0
        raise Refusal(
            "a bundle would carry what looks like a secret to another machine",
            expected="sources without keys",
            seen=seen or f"a key in line {line}",
            where=name,
            do="Keep it in the environment or in the platform's secret store, and out of the tree.",
        )


def _tar(contents: dict[str, tuple[bytes, bool]]) -> bytes:
    """A tar whose bytes depend on names, contents and executability, and on nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, (data, is_program) in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if is_program else 0o644
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def unpack(store: Store, digest: str, folder: Path) -> None:
    """Make a folder with the files of a bundle; it is there whole, or not at all.

    Raises:
        DataFault: when the bytes are not those of the digest.
    """
    data = _verified(store, digest, "the bundle")
    beside = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}")
    beside.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        extract(tar, beside)
    beside.rename(folder)
    atomic.sync_folder(folder.parent)


# -- small files -----------------------------------------------------------------------------------


def put(store: Store, data: bytes) -> str:
    """Store bytes under their digest, once; the digest."""
    digest = sha256(data).hexdigest()
    store.put_once(_key(digest), data)
    return digest


def put_files(
    store: Store, root: Path, names: Iterable[str], limit_bytes: int = FILES_LIMIT
) -> tuple[Item, ...]:
    """Store small files of a working copy.

    Raises:
        Refusal: for a file outside of it, or too many bytes.
    """
    items: list[Item] = []
    for name in names:
        data = _inside(root, name).read_bytes()
        total = sum(item.size_bytes for item in items) + len(data)
        if total > limit_bytes:
            raise _too_large(f"the files with {name}", total, limit_bytes)
        _refuse_secret(name, data)
        items.append(Item(name, put(store, data), len(data)))
    return tuple(items)


def fetch_files(
    store: Store, root: Path, items: Iterable[Item], limit_bytes: int = FILES_LIMIT
) -> None:
    """Publish small files in a working copy, in their order, once all of them were verified.

    Raises:
        DataFault: when bytes are missing or not those of their digest; nothing was published.
        Refusal: for a path outside of the working copy, or too many bytes.
    """
    items = tuple(items)
    total = sum(item.size_bytes for item in items)
    if total > limit_bytes:
        raise _too_large("the files of a job", total, limit_bytes)
    places = [_inside(root, item.path) for item in items]
    contents = [_verified(store, item.digest, item.path) for item in items]
    for place, data in zip(places, contents, strict=True):
        atomic.publish(place, data)


def _verified(store: Store, digest: str, what: str) -> bytes:
    data = store.find(_key(digest))
    seen = "nothing" if data is None else sha256(data).hexdigest()
    if data is None or seen != digest:
        raise DataFault(
            f"{what} is not in the store as it was put there",
            expected=f"bytes with sha256 {digest}",
            seen=seen,
            where=f"{store.address}/{_key(digest)}",
            do="Nothing was published; put it there again by starting the job anew.",
        )
    return data


def _inside(root: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ConfigRefusal(
            "a file of a job lies outside of the working copy",
            expected="a relative path without ..",
            seen=name,
        )
    return root / path


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _key(digest: str) -> str:
    return layout.rental_key("blobs", digest)


def _link(path: Path) -> Refusal:
    return Refusal(
        "a bundle cannot carry a link, which would point elsewhere on another machine",
        seen=f"a link to {path.readlink()}",
        where=path,
        do="Put the file itself there.",
    )


def _too_large(what: str, seen: int, limit: int) -> Refusal:
    return Refusal(
        f"{what} would travel to a rented machine, and are too large for that",
        expected=f"at most {limit:,} bytes",
        seen=f"{seen:,} bytes",
        do="Move data to the volume or into the archive, or let git ignore it.",
    )
