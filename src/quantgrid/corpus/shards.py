"""Shards as files: one row of little-endian uint16 in NumPy's format, which any tool reads."""

import hashlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quantgrid import atomic, layout
from quantgrid.corpus import record
from quantgrid.corpus.manifest import Manifest, Shard
from quantgrid.errors import CorpusRefusal, PlatformFault
from quantgrid.wording import counted

Tokens = NDArray[np.uint16]
DTYPE = np.dtype("<u2")


def header(num_tokens: int) -> bytes:
    """The 128 bytes before the tokens of a shard (NEP 1, version 1.0).

    Spelled here because NumPy pads them as its version likes, and digests must not follow it.
    """
    fields = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({num_tokens},), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + fields.ljust(117).encode() + b"\n"


def describe(name: str, pieces: Sequence[Tokens]) -> Shard:
    """The shard that `write` makes of pieces of tokens, without making it."""
    num_tokens = sum(map(len, pieces))
    start = header(num_tokens)
    sha = hashlib.sha256(start)
    for piece in pieces:
        sha.update(_body(piece))
    return Shard(name, num_tokens, len(start) + DTYPE.itemsize * num_tokens, sha.hexdigest())


def write(path: Path, pieces: Sequence[Tokens]) -> None:
    """Publish pieces of tokens as a shard."""
    with atomic.writing(path) as file:
        file.write(header(sum(map(len, pieces))))
        for piece in pieces:
            file.write(_body(piece))


def _body(piece: Tokens) -> memoryview:
    """The bytes of a piece, not copied when they are in order already; it may be empty."""
    return np.ascontiguousarray(piece, DTYPE).view(np.uint8).data


def holds(path: Path, shard: Shard) -> bool:
    """Whether a file is exactly the shard; False when it is missing or anything else."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256
    except FileNotFoundError:
        return False


def open_verified(folder: Path, manifest: Manifest, shard: Shard) -> Tokens:
    """Map a shard that was read whole and hashed just now.

    Returns:
        Read-only tokens of shape (shard.tokens,), mapped from the very bytes that were hashed.

    Raises:
        CorpusRefusal: when the file is missing, or its size, bytes or form are others.
        PlatformFault: when it cannot be read.
    """
    path = folder / shard.name
    raw = _mapped(path, shard)
    seen = hashlib.sha256(raw.data).hexdigest()
    if seen != shard.sha256:
        raise _changed(path, manifest, shard, seen)
    start = header(shard.tokens)
    if bytes(raw[: len(start)]) != start or raw.size != len(start) + DTYPE.itemsize * shard.tokens:
        raise CorpusRefusal(
            f"{shard.name} holds what was sealed, but not tokens",
            expected=f"{shard.tokens:,} tokens of {DTYPE.str}",
            seen=f"{raw.size:,} bytes that start {bytes(raw[:32])!r}",
            where=path,
            do=record.MAKE_AGAIN,
        )
    return raw[len(start) :].view(DTYPE)


def _mapped(path: Path, shard: Shard) -> NDArray[np.uint8]:
    try:
        size = path.stat().st_size
        if size != shard.size_bytes:
            raise wrong_size(path, shard, size)
        return np.memmap(path, dtype=np.uint8, mode="r")
    except FileNotFoundError:
        raise CorpusRefusal(
            f"{shard.name} is gone",
            expected=f"{shard.size_bytes:,} bytes",
            seen="no file",
            where=path,
            do=record.MAKE_AGAIN,
        ) from None
    except OSError as error:
        raise PlatformFault(f"{shard.name} cannot be read", seen=error, where=path) from error


def wrong_size(path: Path, shard: Shard, size: int) -> CorpusRefusal:
    """The refusal of a shard that is shorter or longer than it should be."""
    return CorpusRefusal(
        f"{shard.name} is {'short' if size < shard.size_bytes else 'long'}",
        expected=f"{shard.size_bytes:,} bytes ({shard.tokens:,} tokens)",
        seen=f"{size:,} bytes",
        where=path,
        do=record.MAKE_AGAIN,
    )


def _changed(path: Path, manifest: Manifest, shard: Shard, seen: str) -> CorpusRefusal:
    other = next((each.name for each in manifest.files() if each.sha256 == seen), None)
    return CorpusRefusal(
        f"{shard.name} is not what was sealed",
        expected=f"sha256 {shard.sha256}",
        seen=f"sha256 {seen}" + (f", which is {other}" if other else ""),
        where=path,
        do=record.MAKE_AGAIN,
    )


def check_listing(folder: Path, manifest: Manifest) -> None:
    """Compare all names and sizes of a folder with its manifest; nothing is read.

    Raises:
        CorpusRefusal: for what is missing, extra, short or long.
    """
    sizes = _listing(folder)
    expected = {shard.name: shard for shard in manifest.files()}
    missing, extra = sorted(expected.keys() - sizes), sorted(sizes.keys() - expected)
    if missing or extra:
        raise CorpusRefusal(
            "the files of this corpus are not those of its manifest",
            expected=counted(len(expected), "file"),
            seen=f"{counted(len(sizes), 'file')}"
            f"{record.named('missing', missing)}{record.named('extra', extra)}",
            where=folder,
            do=record.MAKE_AGAIN if missing else "Move what is extra elsewhere, then try again.",
        )
    for name, shard in expected.items():
        if sizes[name] != shard.size_bytes:
            raise wrong_size(folder / name, shard, sizes[name])


def strangers(folder: Path, known: set[str]) -> list[str]:
    """Files of a corpus folder that the protocol does not know, sorted."""
    return sorted(_listing(folder).keys() - known)


def _listing(folder: Path) -> dict[str, int]:
    """Name and size of every shard-like file: all but records, hidden files and debris."""
    records = {layout.CORPUS_PLAN, layout.CORPUS_MANIFEST}
    with os.scandir(folder) as entries:
        return {
            entry.name: entry.stat().st_size
            for entry in entries
            if entry.name not in records
            and not entry.name.startswith(".")
            and not atomic.is_debris(entry.name)
        }
