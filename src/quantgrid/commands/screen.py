"""`quantgrid screen`: what the rules of the screens run."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quantgrid import atomic, cleared, layout
from quantgrid.errors import BudgetRefusal
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.screens import smoke_form
from quantgrid.select import choose
from quantgrid.spec import Cell
from quantgrid.wording import counted

HELP = "try a grid before it costs money: smoke, probe, clear; `snakemake screens` does all of it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the acts and their options."""
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    common.add_argument("--receipt", required=True, type=Path, help="what was seen goes here")
    common.add_argument("--grid", help="name of a grid; that of config/config.yaml by default")
    smoke = acts.add_parser(
        "smoke", parents=[common], help="one tiny cell, killed and gone on with"
    )
    smoke.add_argument("--select", default="", metavar="EXPR", help="a part of the grid")
    probe = acts.add_parser("probe", parents=[common], help="what a method takes here")
    probe.add_argument("probe", metavar="MODEL-METHOD", help="what to measure")
    probe.add_argument("--platform", help="platform; that of the configuration by default")
    clear = acts.add_parser("clear", parents=[common], help="proceed or refuse, by what was seen")
    clear.add_argument("seen", nargs="+", type=Path, help="receipts of the screens, budget last")


def main(options: argparse.Namespace) -> int:
    """Do what was asked, and write down what was seen."""
    facts = ACTS[options.act](options, options.root.absolute())
    atomic.publish_json(options.receipt.absolute(), facts)
    return 0


def _smoke(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    from quantgrid import smoke

    grid = load_grid(root, load_settings(root, {"grid": options.grid}).grid)
    cells = choose(grid.every, options.select)
    forms = list(dict.fromkeys(cell.form for cell in cells if isinstance(cell, Cell)))
    return smoke.run(root, Path.cwd() / layout.SCREENS_WORK, smoke_form(forms))


def _probe(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    from quantgrid import probes, probing

    settings = load_settings(root, {"grid": options.grid, "platform": options.platform})
    cell = probes.find_cell(load_grid(root, settings.grid), options.probe)
    platform = load_platform(root, settings.platform)
    return probing.run(root, Path.cwd() / layout.SCREENS_WORK, cell, platform)


def _clear(options: argparse.Namespace, _: Path) -> dict[str, Any]:
    """Proceed, with the numbers; or refuse.

    Raises:
        BudgetRefusal: with the numbers.
    """
    *others, budget = [json.loads(path.read_bytes()) for path in options.seen]
    if budget["problems"]:
        fits = budget["proposal"]
        raise BudgetRefusal(
            f"the screens refuse this plan: {'; '.join(budget['problems'])}",
            where=f"grid {budget['grid']} on {budget['platform']}",
            do=f"Raise the cap in `money`, or compute {counted(len(fits['cells']), 'cell')} of it: "
            "`quantgrid budget` says which.",
        )
    return {
        "schema": cleared.SCHEMA,
        "version": cleared.VERSION,
        "proceed": True,
        "grid": budget["grid"],
        "platform": budget["platform"],
        "forecast": budget["forecast"],
        "price": budget["price"],
        "at_once": budget["at_once"],
        "money": budget["money"],
        "seen": [str(path) for path in options.seen],
        "screens": [each["schema"] for each in others],
        "tokens_per_s": cleared.speeds_of(others),
    }


ACTS: dict[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {
    "smoke": _smoke,
    "probe": _probe,
    "clear": _clear,
}
