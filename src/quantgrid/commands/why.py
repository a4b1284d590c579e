"""`quantgrid why`: the whole story of a cell: what failed, what is kept, what to do next."""

import argparse
import json
from pathlib import Path

from quantgrid.archive import Archive
from quantgrid.links_ahead import link_s
from quantgrid.load import load_platform, load_settings
from quantgrid.named_cell import lineage_with
from quantgrid.store import open_store
from quantgrid.story import Place, lines, story

HELP = "tell the whole story of a cell: what failed, what is kept, what to do next"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", help="id of a cell, <base>/<variant>, or <trunk>/<milestone>")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; the first that has the cell by default")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Print the story."""
    code = options.root.absolute()
    settings = load_settings(code, {"grid": options.grid, "archive": options.archive})
    lineage = lineage_with(
        options.cell, code, grid=settings.grid, is_named=options.grid is not None
    )
    root = Path.cwd()
    archive = Archive(open_store(settings.archive, root))
    configured = load_settings(code, {}).grid
    place = Place(root, root / settings.volume, archive, configured)
    left_s = link_s(load_platform(code, settings.platform))
    told = story(lineage, options.cell, place, link_s=left_s)
    print(json.dumps(told, indent=2) if options.json else "\n".join(lines(told, configured)))
    return 0
