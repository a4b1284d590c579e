"""`quantgrid cells`: the cells of a grid, or the files that Snakemake makes for them."""

import argparse
import json
from pathlib import Path

from quantgrid import layout
from quantgrid.load import load_grid, load_settings
from quantgrid.select import NAMES, choose
from quantgrid.spec import Cell

HELP = "list the cells of a grid, or their file targets"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; that of config/config.yaml by default")
    parser.add_argument(
        "--select", metavar="EXPR", help=f"a part of it: comparisons of {', '.join(NAMES)}"
    )
    parser.add_argument("--targets", action="store_true", help="print files instead of ids")
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def main(options: argparse.Namespace) -> int:
    """Print the cells, one a line or as JSON."""
    root = options.root.absolute()
    overrides = {"grid": options.grid, "select": options.select}
    settings = load_settings(root, overrides)
    cells = choose(load_grid(root, settings.grid).cells, settings.select)
    names = [_target(cell) if options.targets else cell.id for cell in cells]
    if options.json:
        facts = names if options.targets else [_facts(cell) for cell in cells]
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(names))
    return 0


def _target(cell: Cell) -> str:
    return layout.RESULT.format(base=cell.base, variant=cell.variant)


def _facts(cell: Cell) -> dict[str, object]:
    """What `select` sees of a cell."""
    return {name: look(cell) for name, look in NAMES.items()}
