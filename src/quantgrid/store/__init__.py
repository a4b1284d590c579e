"""The leaf under archive, holds, register and state: keys with bytes, create-once, listed.

Keys are relative POSIX paths.  Three outcomes for every call: done, not done, and an exception
that leaves open whether it was done (look before repeating).
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from quantgrid import layout
from quantgrid.errors import ConfigRefusal


class Entry(NamedTuple):
    """A finished key with what a listing says of it.

    Args:
        key: The key.
        size_bytes: Its size.
        modified: When it was put, in UTC, by the store's clock.
    """

    key: str
    size_bytes: int
    modified: datetime


class Store(Protocol):
    """What every adapter offers; `tests/contract/test_store.py` is the suite it must pass."""

    @property
    def address(self) -> str:
        """What a person would type to find this store."""

    @property
    def is_remote(self) -> bool:
        """Whether every look costs a request, so that a listing of all is dear."""

    def get(self, key: str) -> bytes:
        """The bytes of a key.

        Raises:
            KeyError: when nothing is there.
            PlatformFault: when it cannot be told whether something is there.
        """

    def find(self, key: str) -> bytes | None:
        """The bytes of a key, or None when nothing is there."""

    def size(self, key: str) -> int | None:
        """The size in bytes of a key, or None when nothing is there."""

    def fetch(self, key: str, cache: Path) -> Path:
        """A local file with the bytes of a key: the stored file itself, or a copy in `cache`.

        Raises:
            KeyError: when nothing is there.
        """

    def put_once(self, key: str, data: bytes) -> bool:
        """Create a key; True when this call created it, False when it was there before."""

    def put_file_once(self, key: str, source: Path) -> bool:
        """Create a key from a file; True when this call created it, False when it was there."""

    def list(self, prefix: str) -> Iterator[str]:
        """Every finished key below a prefix (a folder, no trailing slash), in no order."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Like `list`, with size and age of every key."""

    def now(self) -> datetime:
        """The time in UTC by the store's clock: the one that dates its keys.

        A store that is asked for its time may be made by the question, unlike by a look.
        """

    def delete(self, key: str) -> None:
        """Remove a key of state, of a hold or of a failure; one that is not there is no error."""

    def clear_dead(self) -> int:
        """Remove what dead writers left unfinished; how many that were."""


def open_store(address: str, root: Path) -> Store:
    """The store at an address: a folder, relative to the working copy when not absolute, or S3.

    Raises:
        ConfigRefusal: for a kind of address that no adapter serves.
    """
    kind, separator, _ = address.partition("://")
    if kind == "s3":
        from quantgrid.store.s3 import S3Store

        return S3Store(address, root / layout.STORE_FACTS)
    if separator:
        raise ConfigRefusal(
            f"no store adapter serves addresses of the kind {kind}://",
            expected="a folder or s3://bucket/prefix",
            seen=address,
            do="Set `archive` in config/config.yaml to one of those.",
        )
    from quantgrid.store.folder import FolderStore

    return FolderStore(root / address)
