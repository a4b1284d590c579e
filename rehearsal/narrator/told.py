"""What the narrator heard: plays, scenes with their plays, and how they read."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rehearsal.narrator.scenes import Scene


class Play(NamedTuple):
    """One test that is over.

    Args:
        test: As pytest names it.
        outcome: `passed`, `failed` or `skipped`.
        wall_s: Seconds on a watch.
        words: Why it was skipped or failed.
        scaled_s: Seconds of the platform's own time; 0 when no platform took part.
        usd: The platform's bill.
        billing: Machines that still cost something at the end.
    """

    test: str
    outcome: str
    wall_s: float
    words: str = ""
    scaled_s: float = 0.0
    usd: float = 0.0
    billing: int = 0

    @property
    def scene(self) -> str:
        """Name of the file of the test."""
        return Path(self.test.partition("::")[0]).stem

    @property
    def name(self) -> str:
        """Name of the test without its case."""
        return self.test.rpartition("::")[2].partition("[")[0]


class Act(NamedTuple):
    """A scene and all that was played of it."""

    scene: Scene
    plays: tuple[Play, ...]

    @property
    def outcome(self) -> str:
        """`stopped` when every play passed, `NOT STOPPED` when one failed, else `not played`."""
        outcomes = {play.outcome for play in self.plays}
        if "failed" in outcomes:
            return "NOT STOPPED"
        return "stopped" if "passed" in outcomes else "not played"

    @property
    def wall_s(self) -> float:
        """Seconds on a watch."""
        return sum(play.wall_s for play in self.plays)

    @property
    def scaled_s(self) -> float:
        """Seconds of the platforms, one play after the other."""
        return sum(play.scaled_s for play in self.plays)

    @property
    def usd(self) -> float:
        """Bills of the platforms."""
        return sum(play.usd for play in self.plays)

    def by_test(self) -> list[tuple[str, list[Play]]]:
        """First line of each test and its cases; a test that was not played has none."""
        return [
            (line, [play for play in self.plays if play.name == name])
            for name, line in self.scene.lines.items()
        ]


def acts_of(scenes: Iterable[Scene], plays: Iterable[Play]) -> list[Act]:
    """Every scene with its plays, in the order of the scenes."""
    known = list(plays)
    return [Act(each, tuple(p for p in known if p.scene == each.name)) for each in scenes]


def parse(line: str) -> Play:
    """A play from a line that the plugin wrote."""
    facts: Mapping[str, object] = json.loads(line)
    return Play(**facts)  # type: ignore[arg-type]


# -- how it reads ---------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """`4.2 s`, `12 min`, `3.1 h`, `5.0 days`: what a person would say."""
    for limit_s, unit_s, word in ((100, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit_s:
            number = seconds / unit_s
            return f"{number:.0f} {word}" if number >= 10 else f"{number:.1f} {word}"
    return f"{seconds / 86_400:.1f} days"


def money(usd: float) -> str:
    """`$0.0031` or `$1.20`: small bills are told too."""
    return f"${usd:.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def cost(scaled_s: float, usd: float, wall_s: float) -> str:
    """`after 3.1 h of the platform and $0.42 (12 s here)`."""
    if not scaled_s:
        return f"{span(wall_s)} here, nothing rented"
    return f"{span(scaled_s)} of the platform's time, {money(usd)}, {span(wall_s)} here"
