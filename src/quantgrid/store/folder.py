"""A store in a folder of a POSIX file system."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.errors import ConfigRefusal, PlatformFault
from quantgrid.store import Entry


class FolderStore:
    """Keys are files below `root`; creation is by hard link, so that it is atomic and happens once.

    The folder is made at the first put: looking into a store never creates one.  Something else in
    its place is a fault, never an empty store.
    """

    __slots__ = ("root",)

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.root)

    @property
    def is_remote(self) -> bool:
        """A listing of a folder costs little; see `Store.is_remote`."""
        return False

    def get(self, key: str) -> bytes:
        """The bytes of a key; see `Store.get`."""
        data = self.find(key)
        if data is None:
            raise KeyError(key)
        return data

    def find(self, key: str) -> bytes | None:
        """The bytes of a key, or None; see `Store.find`."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fault("read", key, error) from error

    def size(self, key: str) -> int | None:
        """The size in bytes of a key, or None; see `Store.size`."""
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fault("look at", key, error) from error

    def fetch(self, key: str, cache: Path) -> Path:  # noqa: ARG002 - a folder needs no cache
        """The stored file itself; see `Store.fetch`."""
        if self.size(key) is None:
            raise KeyError(key)
        return self._path(key)

    def put_once(self, key: str, data: bytes) -> bool:
        """Create a key; see `Store.put_once`."""
        try:
            return atomic.create_once(self._path(key), data, incoming=self._incoming)
        except OSError as error:
            raise self._fault("write", key, error) from error

    def put_file_once(self, key: str, source: Path) -> bool:
        """Create a key from a file; see `Store.put_file_once`."""
        try:
            return atomic.create_once_from(source, self._path(key), incoming=self._incoming)
        except OSError as error:
            raise self._fault("write", key, error) from error

    def list(self, prefix: str) -> Iterator[str]:
        """Every key below a prefix; see `Store.list`."""
        for key, _ in self._walk(self._path(prefix), prefix):
            yield key

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every key below a prefix with its facts; see `Store.entries`."""
        for key, item in self._walk(self._path(prefix), prefix):
            try:
                facts = item.stat()
            except FileNotFoundError:  # deleted since the folder was read
                continue
            except OSError as error:
                raise self._fault("look at", key, error) from error
            yield Entry(key, facts.st_size, _moment(facts))

    def now(self) -> datetime:
        """The time that the file system gives a fresh file: a server's, when it is remote."""
        try:
            return _moment(atomic.fresh_file(self._incoming))
        except OSError as error:
            raise self._fault("ask the time of", layout.INCOMING, error) from error

    def _walk(self, folder: Path | str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._fault("list", prefix, error) from error
        for item in entries:
            key = f"{prefix}/{item.name}"
            if self._is_folder(item, key):
                yield from self._walk(item.path, key)
            elif not atomic.is_debris(item.name):
                yield key, item

    def _is_folder(self, item: os.DirEntry[str], key: str) -> bool:
        try:
            return item.is_dir()
        except OSError as error:
            raise self._fault("look at", key, error) from error

    def delete(self, key: str) -> None:
        """Remove a key; see `Store.delete`."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            raise self._fault("delete", key, error) from error

    def clear_dead(self) -> int:
        """Remove what dead writers of this host left unfinished; how many that were."""
        return atomic.clear_dead(self._incoming)

    @property
    def _incoming(self) -> Path:
        return self.root / layout.INCOMING

    def _path(self, key: str) -> Path:
        if key.startswith("/") or ".." in key.split("/"):
            raise ConfigRefusal(f"{key!r} is not a key", expected="a relative path without ..")
        return self.root / key

    def _fault(self, act: str, key: str, error: OSError) -> PlatformFault:
        return PlatformFault(
            f"cannot {act} {key}",
            seen=f"{error.strerror or error}",
            where=self.root,
            do="Nothing half-written is left; mend the folder and run again.",
        )


def _moment(facts: os.stat_result) -> datetime:
    return datetime.fromtimestamp(facts.st_mtime, UTC)
