"""What scripts say goes where the runner's own errors go: without secrets, and not without end.

Scripts write into a pipe, and a thread of the runner passes on what has gathered there, so that
nothing is done for each line.  A log, which is a regular file, keeps the beginning; of what comes
after that it keeps the end, which is written anew every second.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread

from quantgrid import masking

HEAD_BYTES = 4 << 20
"""What a log keeps of the beginning; a training says less in a day."""
TAIL_BYTES = 256 << 10
"""What a log keeps of the end beyond that, where an error is; at most twice as much."""

_BLOCK_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_LITTLE_BYTES = 4096
_PAUSE_S = 0.05
"""Lines that come singly gather for so long: twenty looks a second, however many lines."""
_ANEW_S = 1.0
_OUTPUT, _ERRORS = 1, 2
_PATIENCE_S = 5.0


class Said:
    """Where scripts write: `output` and `errors` are handed to their process.

    Where our own output goes elsewhere than our errors, that of scripts goes there directly.
    """

    def __init__(self, descriptor: int, environment: Mapping[str, str]) -> None:
        self.output = descriptor if _is_one_place() else _OUTPUT
        self.errors = descriptor
        self.log: str | None = None
        self.over = Event()
        self._secrets = masking.secrets(environment)
        self._end = b""
        room: float = float("inf")
        status = os.fstat(_ERRORS)
        if stat.S_ISREG(status.st_mode):
            self.log = os.readlink(f"/proc/self/fd/{_ERRORS}")  # noqa: PTH115 - no file of ours
            room = max(HEAD_BYTES - status.st_size, TAIL_BYTES)
        self._kept = _Kept(room, self._secrets)

    def tail(self) -> str:
        """The end of what was said since the script started, without secrets."""
        return masking.masked(self._end.decode(errors="replace"), self._secrets)

    def pump(self, source: int) -> None:
        """Pass on whole lines of a pipe until nobody can write into it any more."""
        rest = b""
        while data := os.read(source, _BLOCK_BYTES):
            self._end = (self._end + data)[-_BLOCK_BYTES:]
            rest += data
            place = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
            if place or len(rest) > _BLOCK_BYTES:
                place = place or len(rest)
                self._kept.write(rest[:place])
                rest = rest[place:]
            if len(data) < _LITTLE_BYTES:
                self.over.wait(_PAUSE_S)
        self._kept.finish(rest)


class _Kept:
    """What is kept of all that is said: the beginning, and in a log that is full only the end."""

    def __init__(self, room: float, secrets: Mapping[str, str]) -> None:
        self._room, self._secrets = room, secrets
        self._full_at: int | None = None
        self._end, self._left_out = bytearray(), 0
        self._due_s = 0.0

    def write(self, lines: bytes) -> None:
        """Keep lines, if they fit; what does not is held, and the end of it shown now and then."""
        if self._full_at is None and len(lines) <= self._room:
            self._room -= len(lines)
            _write(_masked(lines, self._secrets))
            return
        if self._full_at is None:
            self._full_at = os.lseek(_ERRORS, 0, os.SEEK_CUR)
        self._end += lines
        if len(self._end) > 2 * TAIL_BYTES:
            cut = self._end.find(b"\n", len(self._end) - TAIL_BYTES) + 1
            cut = cut or len(self._end) - TAIL_BYTES
            self._left_out += cut
            del self._end[:cut]
        self._show_anew(self._full_at)

    def finish(self, rest: bytes) -> None:
        """Keep what ended without a line's end, and show all that is held."""
        if rest:
            self.write(rest)
        if self._full_at is not None:
            self._due_s = 0.0
            self._show_anew(self._full_at)

    def _show_anew(self, place: int) -> None:
        """Put the end in the place of what was shown of it before, not too often."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + _ANEW_S
        with suppress(OSError):
            os.lseek(_ERRORS, place, os.SEEK_SET)
            os.ftruncate(_ERRORS, place)
        if self._left_out:
            _write(b"[%d bytes are left out here]\n" % self._left_out)
        _write(_masked(bytes(self._end), self._secrets))


@contextmanager
def listening() -> Iterator[Said]:
    """While the block runs, what is said is kept; afterwards all of it was passed on."""
    source, target = os.pipe()
    _widen(target)
    said = Said(target, os.environ)
    reader = Thread(target=said.pump, args=[source], name="said", daemon=True)
    reader.start()
    try:
        yield said
    finally:
        os.close(target)
        said.over.set()
        reader.join(_PATIENCE_S)
        if not reader.is_alive():
            os.close(source)


def _is_one_place() -> bool:
    """Whether our output goes where our errors go, as in every rule, or nowhere at all."""
    try:
        return os.path.samestat(os.fstat(_OUTPUT), os.fstat(_ERRORS))
    except OSError:
        return True


def _widen(pipe: int) -> None:
    """More room in a pipe, so that whoever says much in short lines waits for nobody."""
    with suppress(OSError):  # the kernel has a limit for each user
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)


def _masked(data: bytes, secrets: Mapping[str, str]) -> bytes:
    """Bytes without secrets; what is no text stays as it is."""
    text = data.decode(errors="surrogateescape")
    return masking.masked(text, secrets).encode(errors="surrogateescape")


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(_ERRORS, data) :]
    except OSError:  # nobody listens any more, or the disk is full; the script must not stop for it
        return
