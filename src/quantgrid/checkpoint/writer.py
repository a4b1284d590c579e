"""Writes checkpoints behind the work's back: one at a time, and none is ever in two states."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quantgrid.checkpoint.folder import Bytes, Checkpoint, Folder


class Written(NamedTuple):
    """How a write ended: with a checkpoint, or with the error of the machine."""

    checkpoint: Checkpoint | None
    error: OSError | None
    wall_s: float
    cpu_s: float


class Writer:
    """A thread for each write; the next write waits for the one before.

    Args:
        folder: Where checkpoints are published.
        published: Called in the thread, with every checkpoint that was published and the seconds
            that it took.
    """

    def __init__(self, folder: Folder, published: Callable[[Checkpoint, float], None]) -> None:
        self._folder, self._published = folder, published
        self._thread: threading.Thread | None = None
        self._outcome: Written | None = None
        self._defect: Exception | None = None

    def is_busy(self) -> bool:
        """Whether a write is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, tokens: int, parts: Sequence[Bytes]) -> None:
        """Begin to publish; `parts` must not change before `join`."""
        assert self._thread is None, "the write before was not joined"  # noqa: S101
        # not a daemon: whatever ends the interpreter in order waits for whole files
        self._thread = threading.Thread(target=self._write, args=(tokens, parts), name="keeper")
        self._thread.start()

    def join(self) -> Written | None:
        """Wait for the write under way; how it ended, None when there was none."""
        if self._thread is None:
            return None
        self._thread.join()
        self._thread = None
        if self._defect:
            raise self._defect
        return self._outcome

    def _write(self, tokens: int, parts: Sequence[Bytes]) -> None:
        begin_s, begin_cpu_s = time.monotonic(), time.thread_time()
        checkpoint, error = None, None
        try:
            checkpoint = self._folder.publish(tokens, parts)
            self._published(checkpoint, time.monotonic() - begin_s)
        except OSError as seen:
            error = seen
        except Exception as seen:  # noqa: BLE001 - raised by `join`, in the thread that works
            self._defect = seen
        wall_s, cpu_s = time.monotonic() - begin_s, time.thread_time() - begin_cpu_s
        self._outcome = Written(checkpoint, error, wall_s, cpu_s)
