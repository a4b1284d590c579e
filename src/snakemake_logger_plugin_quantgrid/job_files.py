"""What the display reads of a job: its progress file while it runs, its log when it failed."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quantgrid.layout import progress_file
from quantgrid.masking import masked
from quantgrid.terminal import Reading, find_error_sentence, find_reading
from quantgrid.wording import as_typed

_TAIL_BYTES = 65536


@dataclass(slots=True)
class ProgressFile:
    """What a job says of itself; what an earlier attempt left behind is never read."""

    path: Path
    _last: tuple[int, int] | None = None

    @classmethod
    def of(cls, output: str, started: float) -> "ProgressFile":
        """The file of the job that writes `output`, started at the Unix time `started`."""
        file = cls(Path(progress_file(output)))
        stamp = file._find_stamp()
        if stamp is not None and stamp[0] < started * 1e9:
            file._last = stamp
        return file

    def find_news(self) -> Reading | None:
        """What the file says, if that is new."""
        stamp = self._find_stamp()
        if stamp is None or stamp == self._last:
            return None
        self._last = stamp
        try:
            return find_reading(self.path.read_text(errors="replace"))
        except OSError:
            return None

    def _find_stamp(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino


def find_last_words(logs: Sequence[str], command: Sequence[str] = ()) -> str | None:
    """The error sentence in the first of a job's logs that has one.

    The place of these logs, which every face tells below the words, is not told in them as well;
    commands in them get the settings of the call that was typed.
    """
    told = next(filter(None, (find_error_sentence(_tail(Path(log))) for log in logs)), None)
    if told is None:
        return None
    for log in logs:
        told = re.sub(rf" \([^() ]*{re.escape(log)}\)", "", told)
    return masked(as_typed(told, command), os.environ)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
