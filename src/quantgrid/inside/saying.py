"""The log of a task on its way to whoever asked for it: whole lines, masked, and not too much."""

import threading
from collections.abc import Mapping
from pathlib import Path

from quantgrid.masking import masked
from quantgrid.rental import tasks
from quantgrid.rental.tasks import Task
from quantgrid.store import Store

HEAD_BYTES = 4 << 20
"""What is sent of the beginning; a training says less in a day."""
TAIL_BYTES = 64 << 10
"""What is sent of the end beyond that, where an error is."""
_CHUNK_BYTES = 64 << 10


class Saying:
    """Sends what a log file says, piece by piece, each under a key of its own.

    Args:
        store: Where to.
        nonce: Of the machine.
        task: Whose log it is.
        path: The log file, which need not be there yet.
        environment: What has secrets among its values.
    """

    def __init__(
        self, store: Store, nonce: str, task: Task, path: Path, environment: Mapping[str, str]
    ) -> None:
        self._store, self._nonce, self._task = store, nonce, task
        self._path, self._environment = path, environment
        self._sent_bytes, self._count = 0, 0
        self._lock = threading.Lock()

    def send(self) -> None:
        """Send the whole lines that are new, as far as the beginning is not sent yet."""
        with self._lock:
            self._send()

    def _send(self) -> None:
        while self._sent_bytes < HEAD_BYTES:
            data = self._read(self._sent_bytes, _CHUNK_BYTES)
            lines = data[: data.rfind(b"\n") + 1] or (data if len(data) == _CHUNK_BYTES else b"")
            if not lines:
                return
            self._put(lines)

    def finish(self) -> bytes:
        """Send the rest; the whole log, masked, without what is too much of it."""
        with self._lock:
            self._send()
            return self._finish()

    def _finish(self) -> bytes:
        size = self._path.stat().st_size if self._path.exists() else 0
        left_out = max(size - self._sent_bytes - TAIL_BYTES, 0)
        rest = self._read(self._sent_bytes + left_out, TAIL_BYTES)
        if left_out:
            rest = rest[rest.find(b"\n") + 1 :]  # half a line may be half a secret
            rest = b"\n[%d bytes are left out here]\n" % left_out + rest
        head = self._read(0, self._sent_bytes)
        if rest:
            self._put(rest)
        return self._masked(head + rest)

    def _read(self, begin: int, count: int) -> bytes:
        if not self._path.exists():
            return b""
        with self._path.open("rb") as file:
            file.seek(begin)
            return file.read(count)

    def _put(self, data: bytes) -> None:
        key = tasks.log_key(self._nonce, self._task, self._count)
        if not self._store.put_once(key, self._masked(data)):
            # an earlier start of this process sent something else: go on behind it
            self._count += 1
            return self._put(data)
        self._count += 1
        self._sent_bytes += len(data)
        return None

    def _masked(self, data: bytes) -> bytes:
        return masked(data.decode(errors="replace"), self._environment).encode()
