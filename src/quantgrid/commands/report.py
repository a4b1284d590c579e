"""`quantgrid report`: the page of a grid and its plots."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.report import canvas, page, plots
from quantgrid.report.records import read_grid, read_wanted
from quantgrid.wanted import source_of

HELP = "write the page of a grid and its plots from its table and records"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--wanted", type=Path, required=True, help="plan/<grid>.json")
    parser.add_argument("--table", type=Path, required=True, help="the table of the grid (CSV)")
    parser.add_argument("--laws", type=Path, required=True, help="the laws of the grid (CSV)")
    parser.add_argument("--out", type=Path, required=True, help="the page to write (HTML)")
    parser.add_argument("--results", type=Path, help="folder of the cells; default: that of --out")
    parser.add_argument("--plots", type=Path, help="folder for the plots; default: that of --out")


def main(options: argparse.Namespace) -> int:
    """Write the plots, then the page."""
    import pandas as pd

    wanted = read_wanted(options.wanted.absolute())
    table, laws = (
        pd.read_csv(path.absolute(), dtype=str, keep_default_na=False)
        for path in (options.table, options.laws)
    )
    page.require_same_cells(table, wanted)
    folder = options.out.absolute().parent
    grid = read_grid(wanted, (options.results or folder).absolute())
    drawings = [
        page.Drawing(plot, plots.svg(plot, grid, canvas.WIDE), plots.svg(plot, grid, canvas.NARROW))
        for plot in plots.PLOTS
    ]
    for drawing in drawings:
        name = Path(layout.PLOTS[drawing.plot.name].format(grid=grid.name)).name
        atomic.publish((options.plots or folder).absolute() / name, drawing.wide)
    source = source_of(options.table.absolute(), options.laws.absolute())
    atomic.publish(options.out.absolute(), page.html(grid, wanted, table, laws, drawings, source))
    print(f"{options.out}: {len(grid.cells)} cells and {len(drawings)} plots.")
    return 0
