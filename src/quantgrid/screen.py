"""A terminal with a block of live lines below everything else that is written to it."""

import os
from collections.abc import Sequence
from typing import TextIO

_ERASE_LINE_END = "\x1b[K"
_ERASE_BELOW = "\x1b[J"


class Screen:
    """Text scrolls, the block stays: every change is one `write`, so nothing flickers.

    The cursor rests on an empty line above the block and is never hidden.  What others print to
    the same terminal (a job, a hook) lands on that line and is kept; the next frame begins where
    they stopped.  A second line between two frames is kept too, with the end of a block line behind
    it.  For the same reason a terminal that changes its width needs no arithmetic.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._block: list[str] = []

    def write(self, text: str) -> int:
        """Keep text that goes above the block with the next `draw`."""
        self._text += text
        return len(text)

    def flush(self) -> None:
        """Text waits for `draw`; this is here for logging.StreamHandler."""

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def size(self) -> tuple[int, int]:
        """Columns and rows, now; 80 by 24 where the terminal does not know."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def draw(self, block: Sequence[str]) -> None:
        """Write the waiting text, then the block, over the block that is there."""
        if not self._text and list(block) == self._block:
            return
        text, self._text = self._text, ""
        over = f"\r{_ERASE_BELOW}" if self._block and (text or not block) else ""
        frame = over + text + (_framed(block) if block else "")
        self._block = list(block)
        self._stream.write(frame)
        self._stream.flush()


def _framed(block: Sequence[str]) -> str:
    """The block below an empty line, and the cursor back on that line."""
    lines = "".join(f"{_ERASE_LINE_END}\n{line}" for line in block)
    return f"\r{lines}{_ERASE_BELOW}\x1b[{len(block)}A\r"
