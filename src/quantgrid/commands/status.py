"""`quantgrid status`: whether a controller runs here, how far it is, and how each cell stands."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quantgrid import gridmap, layout, outlook, standing
from quantgrid.archive import opened
from quantgrid.errors import ConfigRefusal, QuantgridError
from quantgrid.gridlook import Look, look
from quantgrid.load import Settings, load_grid, load_settings
from quantgrid.rental.coordinating import find_launched
from quantgrid.rental.register import Register
from quantgrid.rental.spend import dollars
from quantgrid.screen import Screen
from quantgrid.select import choose
from quantgrid.slurm import outlook as slurm
from quantgrid.standing import Standing, State
from quantgrid.wording import agreeing, counted, wrapped

HELP = "say whether a controller runs here, what failed, and how each cell of the grid stands"

_MOST_WAITS = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--grid", help="name of a grid; that of the controller by default")
    parser.add_argument("--select", metavar="EXPR", help="a part of it")
    parser.add_argument("--short", action="store_true", help="without the map of the grid")
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=float,
        const=5.0,
        help="look again and again (default: every 5 s), until Ctrl-C",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Look at the current working copy; asks nothing of the controller, and changes nothing.

    Raises:
        ConfigRefusal: outside a working copy, or for a named grid or part that cannot be meant.
    """
    if options.watch is not None and not options.json:
        return _watch(options)
    seen = _seen(options)
    if options.json:
        print(json.dumps(_to_json(seen, options), indent=2))
        return 0
    print("\n".join(_controllers(seen)))
    if not options.short:
        print("\n".join(_cells(seen, options, Screen(sys.stdout).size()[0])))
    return 0


def _seen(options: argparse.Namespace) -> Standing:
    """How the controller stands, once it is sure that something can be said at all."""
    seen = standing.look(Path.cwd())
    if seen.state is State.NEVER and not (seen.root / layout.CONFIG).exists():
        load_settings(seen.root, {})  # refuses in its own words; a controller is told in any folder
    if (options.grid or options.select) and not options.json:  # JSON has a field for a problem
        settings = _settings(seen, options)
        choose(load_grid(seen.root, settings.grid).every, settings.select)
    return seen


def _watch(options: argparse.Namespace) -> int:
    """Draw it again and again; a screen that cannot be drawn on gets one after the other."""
    _seen(options)
    screen = Screen(sys.stdout)
    is_live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    while True:
        width, height = screen.size()
        shown = _now(standing.look(Path.cwd()), options, width)
        if is_live:
            screen.draw(shown[: height - 1])
        else:
            print("\n".join([*shown, ""]), flush=True)
        time.sleep(min(max(0.2, options.watch), 86_400.0))  # in this order `nan` is no pause


def _now(seen: Standing, options: argparse.Namespace, width: int) -> list[str]:
    """All lines; a configuration that somebody is writing at this moment ends no watch."""
    told = _controllers(seen)
    if options.short:
        return told
    try:
        return [*told, *_cells(seen, options, width)]
    except ConfigRefusal as error:
        return [*told, *_no_map(error, width)]


def _controllers(seen: Standing) -> list[str]:
    told = [*outlook.lines(seen), *slurm.lines(seen.root)]
    if launched := find_launched(Path.cwd()):
        told.append(f"rented    a coordinator on {launched[0]}; `quantgrid attach` follows it")
    return told


def _cells(seen: Standing, options: argparse.Namespace, width: int) -> list[str]:
    """Money and map, or why there is none.

    Raises:
        ConfigRefusal: when a person named a grid or a part that cannot be meant.
    """
    try:
        return [*_money(seen, options), "", *_map(_look(seen, options), width)]
    except ConfigRefusal as error:
        if options.grid or options.select:
            raise
        return _no_map(error, width)
    except QuantgridError as error:
        return _no_map(error, width)


def _no_map(error: QuantgridError, width: int) -> list[str]:
    return ["", *wrapped(f"no map: {error}", width)]


def _map(found: Look, width: int) -> Sequence[str]:
    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    waits = [
        line
        for what, number in found.waits[:_MOST_WAITS]
        for line in _wait_lines(number, what, width)
    ]
    rest = len(found.waits) - _MOST_WAITS
    return [
        f"grid {found.grid}: {counted(len(found.spots), 'cell')}",
        "",
        *gridmap.lines(found.spots, width, is_coloured=is_coloured),
        *waits,
        *([f"and {counted(rest, 'more reason')}"] if rest > 0 else []),
    ]


def _wait_lines(number: int, what: str, width: int) -> list[str]:
    text = f"{number} {agreeing(number, 'waits', 'wait')} for {what}"
    return wrapped(text, width, rest="  ")


def _money(seen: Standing, options: argparse.Namespace) -> list[str]:
    """What was spent against the cap, where anything was ever rented for an archive."""
    settings = _settings(seen, options)
    books = Register(opened.of(settings, seen.root).store).books()
    if not (books.promises or books.costs):
        return []
    spent = sum(span.cost for span in books.spent() if span.grid in {"", settings.grid})
    owed = sum(span.cost for span in books.owed(time.time()) if span.grid == settings.grid)
    cap = settings.money.bounds()[1]
    text = f"{dollars(spent)} spent of {dollars(cap)}" if cap else f"{dollars(spent)} spent"
    return [f"money     {text}, up to {dollars(owed)} to come, {dollars(books.per_hour())} an hour"]


def _settings(seen: Standing, options: argparse.Namespace) -> Settings:
    told: Mapping[str, Any] = seen.now
    overrides = {"grid": options.grid or told.get("grid") or None, "select": options.select}
    return load_settings(seen.root, overrides)


def _look(seen: Standing, options: argparse.Namespace) -> Look:
    """The grid that was asked for, or that of the controller, or that of the configuration."""
    told: Mapping[str, Any] = seen.now
    settings = _settings(seen, options)
    running = {job["owner"] for job in told.get("running", ())} if seen.state.is_live else set()
    return look(seen.root, settings, running, is_live=seen.state.is_live)


def _to_json(seen: Standing, options: argparse.Namespace) -> dict[str, Any]:
    facts = outlook.to_json(seen) | {"slurm": slurm.to_json(seen.root)}
    if options.short:
        return facts
    try:
        found = _look(seen, options)
    except QuantgridError as error:
        return {**facts, "cells": None, "problem": str(error)}
    cells = {f"{spot.base}/{spot.variant}": str(spot.state) for spot in found.spots}
    counts = {str(state): number for state, number in found.counts.items()}
    return {**facts, "cells": cells, "counts": counts, "waits": dict(found.waits)}
