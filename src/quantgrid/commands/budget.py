"""`quantgrid budget`: what the plan will still cost, and which part of it some money buys."""

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantgrid import atomic, budget, layout
from quantgrid.budget import Budget
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.planning import make_plan
from quantgrid.settings import Settings

HELP = "forecast what a grid will still cost, and propose the largest part that some money buys"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; that of config/config.yaml by default")
    parser.add_argument("--select", metavar="EXPR", help="a part of it")
    parser.add_argument("--platform", help="where it would run; that of the configuration")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--also", action="append", help="archive to read from as well")
    parser.add_argument("--archive-id", help="id that the archive must have")
    parser.add_argument("--volume", help="folder of the volume")
    parser.add_argument("--money", type=json.loads, help="the section `money`, as JSON")
    parser.add_argument("--device", help="price and guesses of another device of config/devices")
    parser.add_argument("--max-usd", type=_dollars, help="dollars; the cap of the grid by default")
    parser.add_argument("--probed", action="store_true", help="refuse to guess what is not probed")
    parser.add_argument("--targets", action="store_true", help="print the files that fit, only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--receipt", type=Path, help="write the numbers there")


def main(options: argparse.Namespace) -> int:
    """Print hours and dollars and, when they are too many, what fits."""
    root = options.root.absolute()
    found = _budget(options, root)
    if options.probed:
        found.refuse_guesses()
    if options.receipt:
        atomic.publish_json(options.receipt.absolute(), found.facts())
    if options.targets:
        chosen = found.proposal.cells
        print("\n".join(_target(each) for each in chosen))
    else:
        print(json.dumps(found.facts(), indent=2) if options.json else found.told())
    return 0


def _budget(options: argparse.Namespace, root: Path) -> Budget:
    settings = _settings(options, root)
    plan = make_plan(settings, trace(load_grid(root, settings.grid), Science(root)), Path.cwd())
    platform = load_platform(root, settings.platform)
    if options.device:
        platform = replace(platform, bills_as=options.device)
    return budget.of(settings, platform, plan, Path.cwd())


def _settings(options: argparse.Namespace, root: Path) -> Settings:
    names = ("grid", "select", "platform", "archive", "archive_id", "volume")
    asked: dict[str, Any] = {name: getattr(options, name) for name in names}
    asked["archives"] = options.also
    asked["money"] = options.money
    if options.archive and options.archive_id is None:
        asked["archive_id"] = ""  # another archive than the configured one has another id
    settings = load_settings(root, asked)
    if options.max_usd is None:
        return settings
    return replace(settings, money=replace(settings.money, max_usd_per_grid=options.max_usd))


def _dollars(text: str) -> float:
    usd = float(text)
    if not 0 <= usd < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no amount of dollars")
    return usd


def _target(cell: str) -> str:
    base, _, variant = cell.partition("/")
    return layout.RESULT.format(base=base, variant=variant)
