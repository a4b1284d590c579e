"""What the incident tests say of themselves: what happened, which guard stops it, what is played.

The tests are the only copy of the scenes; INCIDENTS.md and the narrator read them here.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LABELS = ("Incident", "Guard", "Guards", "Remains")
_LABEL = re.compile(rf"\n(?=(?:{'|'.join(LABELS)}): )")
_SOURCE = re.compile(r"^CP [^:]+: ")
"""Where a play comes from: a chapter of our research, which says nothing to a listener."""


class Scene(NamedTuple):
    """One file of incident tests.

    Args:
        name: Of its file, without folder and ending.
        title: What went wrong, in one line.
        said: Label to text, in the order of the file; labels are those of `LABELS`.
        plays: Name of each test to its first line.
    """

    name: str
    title: str
    said: Mapping[str, str]
    plays: Mapping[str, str]

    @property
    def lines(self) -> Mapping[str, str]:
        """Name of each test to what a listener hears of it."""
        spoken = ((name, _SOURCE.sub("", line)) for name, line in self.plays.items())
        return {name: _sentence(line) for name, line in spoken}

    @property
    def guards(self) -> str:
        """What stops it."""
        return _sentence(self.said.get("Guards") or self.said.get("Guard", ""))

    @property
    def incident(self) -> str:
        """What happened elsewhere."""
        return _sentence(self.said.get("Incident", ""))


def read(path: Path) -> Scene:
    """The scene that a file of tests plays."""
    tree = ast.parse(path.read_text())
    title, *parts = (ast.get_docstring(tree) or path.stem).split("\n\n")
    said = dict(found for part in parts for found in _labelled(part))
    return Scene(path.stem, " ".join(title.split()).rstrip("."), said, _plays(tree))


def all_of(folder: Path) -> list[Scene]:
    """All scenes of a folder, by the names of their files."""
    return [read(path) for path in sorted(folder.glob("test_*.py"))]


def _sentence(text: str) -> str:
    """A text with a capital, as it is read alone."""
    return text[:1].upper() + text[1:]


def _labelled(part: str) -> Iterator[tuple[str, str]]:
    """Label and text of each labelled part; a label also begins a part at the start of a line."""
    for each in _LABEL.split(part):
        label, mark, text = " ".join(each.split()).partition(": ")
        if mark and label in LABELS:
            yield label, text


def _plays(tree: ast.Module) -> dict[str, str]:
    tests = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    return {
        each.name: (ast.get_docstring(each) or each.name).split("\n\n")[0].replace("\n", " ")
        for each in tests
        if each.name.startswith("test_")
    }
