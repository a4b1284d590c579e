"""A terminal as small as the sequences that the display may use; any other sequence is an error."""

import io
import re

from quantgrid.screen import Screen

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)", re.DOTALL)


class Emulator:
    """Columns by rows, with scrollback; `lines` is what a person can scroll through.

    A line feed also returns, as a terminal's output processing does it.  Text in the last column
    leaves the cursor waiting there until more text comes, as in xterm.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._cells: list[str] = [""]
        self._row = self._column = self._top = 0

    @property
    def lines(self) -> list[str]:
        """Every line from the start, without trailing blanks."""
        lines = [line.rstrip() for line in self._cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def cursor(self) -> tuple[int, int]:
        """Row, counted from the first line ever, and column."""
        return self._row, self._column

    def feed(self, text: str) -> None:
        """Take what was written to the terminal."""
        end = 0
        for token in _TOKEN.finditer(text):
            assert token.start() == end, f"not understood: {text[end : end + 20]!r}"
            end = token.end()
            number, letter, control, plain = token.groups()
            if letter:
                self._do(letter, number)
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._feed_line()
            else:
                self._put(plain)
        assert end == len(text), f"not understood: {text[end : end + 20]!r}"

    def _do(self, letter: str, number: str) -> None:
        if letter == "A":
            self._row = max(self._row - int(number or 1), self._top)
        elif letter == "K" and number in ("", "0"):
            self._cells[self._row] = self._cells[self._row][: self._column]
        elif letter == "J" and number in ("", "0"):
            self._cells[self._row] = self._cells[self._row][: self._column]
            self._cells[self._row + 1 :] = [""] * (len(self._cells) - self._row - 1)
        else:
            assert letter == "m", f"not understood: {number}{letter}"

    def _put(self, text: str) -> None:
        for character in text:
            if self._column == self.columns:
                self._feed_line()
            line = self._cells[self._row].ljust(self._column)
            self._cells[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _feed_line(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._cells):
            self._cells.append("")
        self._top = max(self._top, self._row - self.rows + 1)


class Window(io.StringIO):
    """A terminal's side of a stream: everything written shows on the emulator."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__()
        self.emulator = Emulator(columns, rows)
        self.frames: list[str] = []

    def isatty(self) -> bool:
        """A terminal."""
        return True

    def write(self, text: str) -> int:
        """One frame."""
        self.frames.append(text)
        self.emulator.feed(text)
        return len(text)


class SizedScreen(Screen):
    """A screen on a window, whose size is the emulator's."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.window = window

    def size(self) -> tuple[int, int]:
        """The emulator's size."""
        return self.window.emulator.columns, self.window.emulator.rows
