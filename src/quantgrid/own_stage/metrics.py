"""The watch on a program's metrics file: its lines in our names, and a stop when they diverge."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quantgrid.errors import Alarm
from quantgrid.own_stage.results import is_csv, table

NAMES = ("step", "train_loss", "validation_loss")
"""What the watch reads; a block says what the program calls them."""


class Metrics:
    """Follows a file that a program appends to.

    Args:
        source: The program's file.
        names: Our name -> the program's, for those of `NAMES` that it has.
        target: JSON lines in our names (`QG_METRICS`).
    """

    def __init__(self, source: Path, names: Mapping[str, str], target: Path) -> None:
        self._source, self._target = source, target
        self._names = {ours: names[ours] for ours in NAMES if ours in names}
        self._num_rows, self._size = 0, 0
        self.step: float | None = None

    def look(self) -> None:
        """Take over new lines.

        Raises:
            Alarm: for a loss that is not finite.
        """
        for row in self._new_rows():
            ours = {name: row[theirs] for name, theirs in self._names.items() if theirs in row}
            bad = [n for n in ours if n != "step" and not _is_finite(ours[n])]
            if bad:
                raise Alarm(
                    f"{self._names[bad[0]]} is {ours[bad[0]]}",
                    expected="a finite loss",
                    where=f"{self._source.name}, step {ours.get('step', 'unknown')}",
                )
            if ours:
                self._append(ours)

    def _append(self, row: Mapping[str, Any]) -> None:
        self.step = row.get("step", self.step)
        with self._target.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _new_rows(self) -> Iterator[Mapping[str, Any]]:
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


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
