"""What the narrator says in a terminal."""

import shutil
import textwrap
from collections.abc import Iterable
from typing import TextIO

from rehearsal.narrator.told import Act, Play, cost, money, span

_INDENT = " " * 7
_COLOURS = {"stopped": 32, "passed": 32, "NOT STOPPED": 31, "failed": 31}
_MARKS = {"passed": "+", "failed": "!", "skipped": "-"}


class Voice:
    """Speaks to a terminal or into a log.

    Args:
        out: Where to.
        is_coloured: Whether words may have colours.
    """

    def __init__(self, out: TextIO, *, is_coloured: bool) -> None:
        self._out, self._is_coloured = out, is_coloured
        self._is_live = out.isatty()
        self._width = min(shutil.get_terminal_size().columns, 100) - 1

    def title(self, text: str) -> None:
        """A part of the rehearsal begins."""
        self._say(f"\n== {text}")

    def wait(self, over: int, whole: int) -> None:
        """Tests are played; a line that the next word replaces."""
        if self._is_live:
            self._out.write(f"\r\x1b[K   {over} of {whole} tests are over ...")
            self._out.flush()

    def grid(self, platform: str, play: Play) -> None:
        """A whole grid went, or did not go, through a platform."""
        word = {"passed": "equal to this machine's"}.get(play.outcome, play.outcome)
        self._say(f"   {platform:<8} {self._painted(word, play.outcome)}; {_cost(play)}")
        self._paragraph(play.words, _INDENT)

    def act(self, number: int, whole: int, act: Act) -> None:
        """An incident was played."""
        self._say("")
        self._paragraph(act.scene.title, f"{number:>3}/{whole:<2} ")
        self._paragraph(act.scene.incident, _INDENT)
        for line, plays in act.by_test():
            self._played(line, plays)
        self._say(_INDENT + self._painted(act.outcome, act.outcome) + self._after(act))
        self._paragraph(act.scene.guards, f"{_INDENT}guard: ")
        self._paragraph(act.scene.said.get("Remains", ""), f"{_INDENT}remains: ")

    def _after(self, act: Act) -> str:
        return "" if act.outcome == "not played" else f" after {_sum(act)}"

    def _played(self, line: str, plays: list[Play]) -> None:
        outcomes = {play.outcome for play in plays}
        outcome = next((each for each in ("failed", "passed", "skipped") if each in outcomes), "")
        times = f" ({len(plays)} cases)" if len(plays) > 1 else ""
        text = line + (times or ("" if plays else " (nightly only)"))
        mark = _MARKS.get(outcome, "-")
        self._paragraph(text, f"{_INDENT}{mark} ", hang=2)
        for play in plays:
            self._paragraph(play.words, f"{_INDENT}  ")

    def summary(self, acts: Iterable[Act], wall_s: float, page: str) -> None:
        """How it went, for the eye that looks at the end first."""
        known = list(acts)
        counts = {w: sum(a.outcome == w for a in known) for w in ("stopped", "NOT STOPPED")}
        left = [each for act in known for each in act.plays if each.billing]
        scaled_s, usd = sum(a.scaled_s for a in known), sum(a.usd for a in known)
        self._say(
            f"\n== {len(known)} incidents: {counts['stopped']} stopped, "
            f"{counts['NOT STOPPED']} not stopped, "
            f"{len(known) - sum(counts.values())} not played here"
        )
        self._say(f"   {span(scaled_s)} of platforms' time, {money(usd)}, {span(wall_s)} here")
        self._say("   nothing is billing" if not left else f"   BILLING after {left[0].test}")
        self._say(f"   page      {page}")

    def lost(self, platforms: Iterable[str], log: str) -> None:
        """Grids that were not as on this machine, far below where each was told."""
        for platform in platforms:
            self._say(f"   {self._painted('FAILED', 'failed')}    the grid on {platform}: {log}")

    def _paragraph(self, text: str, lead: str, *, hang: int = 0) -> None:
        """A text below its lead, one line after the other."""
        after = " " * (len(lead) if lead.strip() else len(lead) + hang)
        text = text.replace("`", "")
        for line in textwrap.wrap(
            text, self._width, initial_indent=lead, subsequent_indent=after, break_long_words=False
        ):
            self._say(line)

    def _say(self, line: str) -> None:
        clear = "\r\x1b[K" if self._is_live else ""
        self._out.write(f"{clear}{line}\n")
        self._out.flush()

    def _painted(self, text: str, outcome: str) -> str:
        colour = _COLOURS.get(outcome)
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and colour else text


def _cost(play: Play) -> str:
    return cost(play.scaled_s, play.usd, play.wall_s)


def _sum(act: Act) -> str:
    return cost(act.scaled_s, act.usd, act.wall_s)
