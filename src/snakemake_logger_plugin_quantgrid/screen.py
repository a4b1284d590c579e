"""A terminal with a block of live lines below everything else that is written to it."""

import os
from collections.abc import Sequence
from typing import TextIO

from quantgrid.terminal import printable

_ERASE_LINE_END = "\x1b[K"
_ERASE_BELOW = "\x1b[J"


class Screen:
    """Text scrolls, the block stays: every change is one `write`, so nothing flickers.

    The cursor rests below the block and is never hidden, and lines are shorter than the width:
    even a killed process leaves a usable terminal.
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
        up = self._rows()
        text, self._text = self._text, ""
        frame = f"\x1b[{up}A\r" if up else ""
        frame += (_ERASE_BELOW if up and text else "") + text
        frame += "".join(f"{line}{_ERASE_LINE_END}\n" for line in block)
        frame += _ERASE_BELOW if up else ""
        self._block = list(block)
        self._stream.write(frame)
        self._stream.flush()

    def _rows(self) -> int:
        """Rows that the block takes now: a terminal made narrower has wrapped its lines."""
        columns = self.size()[0]
        return sum(max(1, -(-len(printable(line)) // columns)) for line in self._block)
