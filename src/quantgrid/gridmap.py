"""The grid as a map: one mark a cell, a row a form, a column a base; pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from quantgrid import terminal


class State(StrEnum):
    """How a cell stands; the order is that of the legend."""

    DONE = "done"
    ARCHIVED = "archived"
    RUNNING = "running"
    NEXT = "next"
    WAITING = "waiting"
    HELD = "held elsewhere"
    STALE = "stale"
    SUSPECT = "suspect"
    INVALID = "invalid"
    FAILED = "failed"


_MARKS = {
    State.DONE: ("#", 32),
    State.ARCHIVED: ("a", 36),
    State.RUNNING: ("R", 33),
    State.NEXT: ("n", 33),
    State.WAITING: (".", 0),
    State.HELD: ("h", 36),
    State.STALE: ("~", 35),
    State.SUSPECT: ("?", 35),
    State.INVALID: ("x", 31),
    State.FAILED: ("F", 31),
}
_MEANINGS = {
    State.ARCHIVED: "archived, not folded here",
    State.NEXT: "next: what it is made from runs now",
    State.STALE: "stale: only results of another definition",
}
_SEED = re.compile(r"-s\d+(?=-|$)")
_LABEL = 26
_ROW_LABEL = "{:<26.26}  "


class Spot(NamedTuple):
    """A cell on the map.

    Args:
        base: Id of its base, `<model>-<budget>-s<seed>`.
        variant: Id of its form.
        state: How it stands.
    """

    base: str
    variant: str
    state: State


class _Group(NamedTuple):
    """The bases that differ by their seeds only, side by side."""

    name: str
    bases: tuple[str, ...]

    @property
    def names(self) -> tuple[str, str]:
        """The model, and the rest of the name."""
        model, _, rest = self.name.partition("-")
        return model, rest

    @property
    def width(self) -> int:
        return max(len(self.bases), *map(len, self.names)) + 1


def lines(spots: Iterable[Spot], width: int, *, is_coloured: bool) -> Iterator[str]:
    """The map within a width, in as many blocks as that takes, and the legend with counts."""
    at = {(spot.base, spot.variant): spot.state for spot in spots}
    for columns in _fitting(_groups(base for base, _ in at), max(width - _LABEL - 2, 12)):
        yield from _block(at, columns, is_coloured=is_coloured)
        yield ""
    yield from legend(Counter(at.values()), width, is_coloured=is_coloured)


def legend(counts: Mapping[State, int], width: int, *, is_coloured: bool) -> Iterator[str]:
    """The marks that are on the map, with their meaning and number; one line where they fit."""
    parts, shown = [], []
    for state in State:
        if counts.get(state):
            words = f"{counts[state]} {_MEANINGS.get(state, state)}"
            parts.append(f"{_MARKS[state][0]} {words}")
            shown.append(f"{_mark(state, is_coloured=is_coloured)} {words}")
    if len("   ".join(parts)) <= width:
        yield "   ".join(shown)
    else:
        yield from shown


def _groups(bases: Iterable[str]) -> list[_Group]:
    found: dict[str, list[str]] = {}
    for base in dict.fromkeys(bases):
        found.setdefault(_SEED.sub("", base, count=1), []).append(base)
    return [_Group(name, tuple(own)) for name, own in found.items()]


def _fitting(groups: Sequence[_Group], width: int) -> Iterator[list[_Group]]:
    """Groups in their order, as many side by side as fit; one that is too wide stands alone."""
    row: list[_Group] = []
    for group in groups:
        if row and sum(each.width for each in row) + group.width > width:
            yield row
            row = []
        row.append(group)
    if row:
        yield row


def _block(
    at: Mapping[tuple[str, str], State], columns: Sequence[_Group], *, is_coloured: bool
) -> Iterator[str]:
    before = ["", *(group.names[0] for group in columns)]
    models = [
        f"{'' if group.names[0] == last else group.names[0]:<{group.width}}"
        for group, last in zip(columns, before, strict=False)
    ]
    rests = [f"{group.names[1]:<{group.width}}" for group in columns]
    for names in (models, rests):
        yield (_ROW_LABEL.format("") + "".join(names)).rstrip()
    bases = [base for group in columns for base in group.bases]
    for variant in dict.fromkeys(variant for _, variant in at):
        if any((base, variant) in at for base in bases):
            cells = "".join(_cells(at, group, variant, is_coloured) for group in columns)
            label = terminal.elide(variant, _LABEL)
            yield (_ROW_LABEL.format(label) + cells).rstrip()


def _cells(
    at: Mapping[tuple[str, str], State],
    group: _Group,
    variant: str,
    is_coloured: bool,  # noqa: FBT001
) -> str:
    found = [at.get((base, variant)) for base in group.bases]
    marks = (_mark(state, is_coloured=is_coloured) if state else " " for state in found)
    return "".join(marks) + " " * (group.width - len(found))


def _mark(state: State, *, is_coloured: bool) -> str:
    mark, colour = _MARKS[state]
    return f"\x1b[{colour}m{mark}\x1b[0m" if is_coloured and colour else mark
