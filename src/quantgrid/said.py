"""What scripts say goes where the runner's own errors go; its end is kept for the diagnosis.

Under Snakemake that is the log, a regular file: the scripts write into it directly and the runner
reads its end.  Into a pipe or a terminal the runner passes on what it reads.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_TAIL_BYTES = 65536
_ERRORS = 2
_PATIENCE_S = 5.0


class Said:
    """Where a script's errors go; `descriptor` is handed to its process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.log: str | None = None
        self._start = 0
        self._tail = b""

    def tail(self) -> str:
        """The end of what was said since the script started."""
        if self.log:
            self._tail = _end_of_file(self._start)
        return self._tail.decode(errors="replace")

    def pump(self, source: int) -> None:
        """Pass on what comes from a pipe until nobody can write into it any more."""
        while data := os.read(source, _TAIL_BYTES):
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
            _write(data)


@contextmanager
def listening() -> Iterator[Said]:
    """While the block runs, what is said is kept; afterwards all of it was passed on."""
    status = os.fstat(_ERRORS)
    if stat.S_ISREG(status.st_mode):
        said = Said(_ERRORS)
        said.log = os.readlink(f"/proc/self/fd/{_ERRORS}")  # noqa: PTH115 - no file of ours
        said._start = status.st_size
        yield said
        return
    import threading  # costs a millisecond, and under Snakemake nobody needs it

    source, target = os.pipe()
    said = Said(target)
    reader = threading.Thread(target=said.pump, args=[source], daemon=True)
    reader.start()
    try:
        yield said
    finally:
        os.close(target)
        reader.join(_PATIENCE_S)
        if not reader.is_alive():
            os.close(source)


def _end_of_file(start: int) -> bytes:
    with open(f"/proc/self/fd/{_ERRORS}", "rb") as file:  # noqa: PTH123 - no file of ours
        file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, start))
        return file.read()


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(_ERRORS, data) :]
    except OSError:  # nobody listens any more; the script must not stop for that
        return
