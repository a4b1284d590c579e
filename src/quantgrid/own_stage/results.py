"""Where a program's numbers are: a JSON file, the last line of a table, or its own output."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.errors import DataFault

Numbers = dict[str, str | int | float | bool]

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.I)


class Matcher:
    """Finds numbers in a program's output as it comes; the last match counts."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._rest = re.compile(pattern), ""
        self.found: Mapping[str, str] = {}

    def feed(self, text: str) -> None:
        """Take the next piece of output; only whole lines are looked at."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._look(line)

    def finish(self) -> None:
        """Look at a last line that does not end."""
        self._look(self._rest)

    def _look(self, line: str) -> None:
        for match in self._pattern.finditer(line):
            self.found = {name: text for name, text in match.groupdict().items() if text}


def read(declared: Mapping[str, Any], folder: Path, output: Matcher | None) -> Numbers:
    """The numbers of a finished program.

    Args:
        declared: The `results` of its block.
        folder: Where it was started.
        output: What was found in its output, when they are there.

    Raises:
        DataFault: when they are not there, or are not finite.
    """
    found: Mapping[str, Any]
    if output is not None:
        output.finish()
        where, found = "standard output", {k: number(v) for k, v in output.found.items()}
    elif "json" in declared:
        where = declared["json"]
        found = _object(_bytes(folder, where), where)
    else:
        where = declared["last_line"]
        rows = table(_bytes(folder, where).decode(errors="replace"), is_csv=is_csv(where))
        found = rows[-1] if rows else {}
    return _checked(found, declared.get("names"), where)


def number(text: str) -> str | int | float:
    """A number where the text is one."""
    if not _NUMBER.fullmatch(text.strip()):
        return text
    value = float(text)
    is_whole = re.fullmatch(r"\s*[-+]?\d+\s*", text)
    return int(text) if is_whole else value


def is_csv(name: str) -> bool:
    """Whether a table has commas and a header line, and not JSON in each line."""
    return layout.has_header(Path(name))


def table(text: str, *, is_csv: bool) -> list[dict[str, Any]]:
    """The rows of JSON lines or of a CSV; lines that are not whole are left out."""
    lines = text.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if is_csv:
        delimiter = "\t" if whole and "\t" in whole[0] else ","
        reader = csv.reader(whole, delimiter=delimiter)
        header = next(reader, [])
        return [
            {name.strip(): number(value) for name, value in zip(header, row, strict=False)}
            for row in reader
            if len(row) == len(header) and row != header
        ]
    return [row for line in whole if (row := _row(line)) is not None]


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:12])
        raise DataFault(
            "the program ended without its results", expected=name, seen=f"{there}"
        ) from error


def _object(data: bytes, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataFault(
            "the results are no JSON object", expected="{...}", seen=repr(data[:60]), where=where
        )
    return found


def _checked(found: Mapping[str, Any], names: Sequence[str] | None, where: str) -> Numbers:
    scalars = {name: value for name, value in found.items() if isinstance(value, _SCALARS)}
    missing = [name for name in names or () if name not in scalars]
    if missing or not scalars:
        raise DataFault(
            "the program's results are not there",
            expected=", ".join(names or ("a number by name",)),
            seen=", ".join(scalars) or "nothing",
            where=where,
            do="It ended with 0 all the same; the log shows what it said, `results` what is read.",
        )
    taken = {name: scalars[name] for name in names or scalars}
    for name, value in taken.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise DataFault(f"the result {name} is {value}", expected="a number", where=where)
    return taken


_SCALARS = (str, int, float, bool)
