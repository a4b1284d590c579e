"""`quantgrid cells`: the cells of a grid, or the files that Snakemake makes for them."""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from quantgrid import layout
from quantgrid.grid import Grid
from quantgrid.load import load_grid, load_settings
from quantgrid.own_script import OwnCell
from quantgrid.select import NAMES, AnyCell, choose, look
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
    parser.add_argument(
        "--blocks",
        metavar="DEVICE",
        nargs="?",
        const="h100",
        help="print what each block would cost on a device of config/devices (default h100)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def main(options: argparse.Namespace) -> int:
    """Print the cells, one a line or as JSON."""
    root = options.root.absolute()
    overrides = {"grid": options.grid, "select": options.select}
    settings = load_settings(root, overrides)
    grid = load_grid(root, settings.grid)
    cells = choose(grid.every, settings.select)
    if options.blocks:
        _print_costs(
            replace(grid, cells=tuple(c for c in cells if isinstance(c, Cell))), root, options
        )
        return 0
    names = [_target(cell) if options.targets else cell.id for cell in cells]
    if options.json:
        facts = names if options.targets else [_facts(cell) for cell in cells]
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(names))
    return 0


def _print_costs(grid: Grid, root: Path, options: argparse.Namespace) -> None:
    """One line a block: cells, operations, hours, dollars."""
    from quantgrid.costs import block_costs, total  # only this option needs it
    from quantgrid.devices import load_device

    blocks = block_costs(grid, load_device(root, options.blocks))
    rows = [*blocks, total(blocks)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{'block':<8} {'cells':>6} {'EFLOP':>9} {'hours':>8} {'USD':>8}   on {options.blocks}")
    for row in rows:
        numbers = f"{row.flops / 1e18:9.3f} {row.hours:8.2f} {row.usd:8.2f}"
        print(f"{row.block:<8} {row.num_cells:6d} {numbers}")


def _target(cell: AnyCell) -> str:
    return layout.RESULT.format(base=cell.base, variant=cell.variant)


def _facts(cell: AnyCell) -> dict[str, object]:
    """What `select` sees of a cell."""
    names = [*NAMES, *(cell.axes if isinstance(cell, OwnCell) else ())]
    return {name: look(cell, name) for name in names}
