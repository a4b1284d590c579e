"""A program's metrics file, followed while it grows: its lines in our names."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quantgrid.own_stage.results import is_csv, table

NAMES = ("step", "tokens", "train_loss", "validation_loss", "gradient_norm")
"""What the watch reads; a block says what the program calls them."""


Row = Mapping[str, Any]


class Metrics:
    """Follows a file that a program appends to.

    Args:
        source: The program's file.
        names: Our name -> the program's, for those of `NAMES` that it has.
        target: JSON lines in our names (`QG_METRICS`).
        hear: Gets each line in our names.
    """

    def __init__(
        self, source: Path, names: Mapping[str, str], target: Path, hear: Callable[[Row], None]
    ) -> None:
        self._source, self._target, self._hear = source, target, hear
        self._names = {ours: names[ours] for ours in NAMES if ours in names}
        self._num_rows, self._size = 0, 0
        self.step: float | None = None

    def look(self) -> None:
        """Take over new lines; a field without a value is left out.

        Raises:
            Alarm: when who hears them stops the cell.
        """
        for row in self._new_rows():
            told = {ours: row.get(theirs) for ours, theirs in self._names.items()}
            ours = {name: value for name, value in told.items() if value not in (None, "")}
            if ours:
                self._append(ours)
                self._hear(ours)

    def _append(self, row: Row) -> None:
        self.step = row.get("step", self.step)
        with self._target.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _new_rows(self) -> Iterator[Row]:
        try:
            size = self._source.stat().st_size
            if size == self._size:
                return
            text = self._source.read_text(errors="replace")
        except OSError:  # not made yet, or just replaced
            return
        rows = table(text, is_csv=is_csv(self._source.name))
        if size < self._size:  # it began again
            self._num_rows = 0
        self._size = size
        new, self._num_rows = rows[self._num_rows :], len(rows)
        yield from new
