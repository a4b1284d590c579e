"""What `quantgrid doctor` checks: one module a platform, found by name.

Each has `check(root, settings, platform, second) -> list[Finding]`; `second` is another mount of
the volume, if a person named one.
"""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from quantgrid.errors import QuantgridError

DEFAULT = "local"


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    REFUSE = "refuse"


class Finding(NamedTuple):
    """One line of a doctor."""

    level: Level
    subject: str
    seen: str
    do: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<7} {self.subject:<9} {self.seen}"
        return f"{line}\n{'':<18}{self.do}" if self.do else line


def names() -> list[str]:
    """The platforms that have a module of their own."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem[0] != "_")


def attempt(subject: str, act: Callable[[], Finding]) -> Finding:
    """What an act finds; its refusal or fault is a finding too."""
    try:
        return act()
    except QuantgridError as error:
        return Finding(Level.REFUSE, subject, str(error))
