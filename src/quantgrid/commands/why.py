"""`quantgrid why`: the whole story of a cell: what failed, what is kept, what to do next."""

import argparse
import json
import os
import time
from pathlib import Path

from quantgrid.archive import Archive
from quantgrid.errors import ConfigRefusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import Platform, load_grid, load_platform, load_settings
from quantgrid.store import open_store
from quantgrid.story import Place, lines, story
from quantgrid.watching import Limits

HELP = "tell the whole story of a cell: what failed, what is kept, what to do next"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", help="id of a cell, <base>/<variant>")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; that of config/config.yaml by default")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Print the story."""
    code = options.root.absolute()
    settings = load_settings(code, {"grid": options.grid, "archive": options.archive})
    lineage = trace(load_grid(code, settings.grid), Science(code))
    refuse_unknown_cell(lineage, options.cell, settings.grid)
    root = Path.cwd()
    place = Place(root, root / settings.volume, Archive(open_store(settings.archive, root)))
    link_s = _link_s(load_platform(code, settings.platform))
    told = story(lineage, options.cell, place, link_s=link_s)
    print(json.dumps(told, indent=2) if options.json else "\n".join(lines(told)))
    return 0


def refuse_unknown_cell(lineage: Lineage, cell: str, grid: str) -> None:
    """Hold that the grid has a cell.

    Raises:
        ConfigRefusal: when it has none of that name.
    """
    if cell not in lineage.cells:
        raise ConfigRefusal(
            f"grid {grid} has no cell {cell}",
            do=f"`quantgrid cells --grid {grid}` lists its cells; --grid names another grid.",
        )


def _link_s(platform: Platform) -> float | None:
    factor = platform.clock_factor
    cap_s = None if platform.cap_s is None else platform.cap_s / factor
    return Limits(cap_s, platform.grace_s / factor).deadline_s(os.environ, time.time())
