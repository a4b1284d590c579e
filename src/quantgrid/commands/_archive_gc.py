"""`quantgrid archive gc`: delete training state whose results are whole and held by nobody."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from quantgrid import workspace
from quantgrid.archive import Archive
from quantgrid.archive.spent import Spent, find, remove
from quantgrid.clock import SystemClock
from quantgrid.errors import DataFault
from quantgrid.load import Settings


def gc(archive: Archive, settings: Settings, options: argparse.Namespace) -> int:
    """Report what may go and what stays for which reason; delete only when told so."""
    root = Path.cwd()
    with workspace.attempt(root, SystemClock()) as scratch:
        found = find(archive, root / settings.volume, scratch)
    print(_json(found) if options.json else _text(found))
    free = [each for each in found if not each.kept]
    if options.yes:
        _say("deleted", list(remove(archive, free)))
    else:
        _say("would delete (with --yes)", free)
    return DataFault.exit_code if any(each.damage for each in found) else 0


def _say(word: str, states: list[Spent]) -> None:
    total = sum(each.size_bytes for each in states)
    print(f"{word} {len(states)} folders of state, {total} bytes", file=sys.stderr)


def _json(found: Iterable[Spent]) -> str:
    told = ("place", "record", "size_bytes", "held", "damage")
    return json.dumps([{name: getattr(each, name) for name in told} for each in found], indent=2)


def _text(found: Iterable[Spent]) -> str:
    return "\n".join(map(_line, found)) or "nothing to delete"


def _line(each: Spent) -> str:
    line = f"{each.place}: {each.size_bytes} bytes"
    if each.held:
        return f"{line}, stays: computed by {each.held}"
    return f"{line}, stays: {each.damage}" if each.damage else line
