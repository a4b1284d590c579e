"""`quantgrid report`: the page of a grid and its plots."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.archive.opened import configure as configure_archive
from quantgrid.archive.opened import opened
from quantgrid.archive.record import Record
from quantgrid.report import canvas, own, page, plots, trunks
from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.wanted import source_of
from quantgrid.wording import counted

HELP = "write the page of a grid and its plots from its table and records"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--wanted", type=Path, required=True, help="plan/<grid>.json")
    parser.add_argument("--table", type=Path, required=True, help="the table of the grid (CSV)")
    parser.add_argument("--laws", type=Path, required=True, help="the laws of the grid (CSV)")
    parser.add_argument("--out", type=Path, required=True, help="the page to write (HTML)")
    parser.add_argument("--results", type=Path, help="folder of the cells; default: that of --out")
    parser.add_argument("--plots", type=Path, help="folder for the plots; default: that of --out")
    configure_archive(parser, is_required=False)


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
    models, programs = own.split(wanted)
    results = (options.results or folder).absolute()
    grid, rows = read_grid(models, results), own.read_rows(programs, results)
    drawings = _drawings(grid) if grid.cells else []
    drawn = {drawing.plot.name: drawing.wide for drawing in drawings}
    for plot in plots.PLOTS:
        name = Path(layout.PLOTS[plot.name].format(grid=grid.name)).name
        data = drawn.get(plot.name, own.NOTHING_TO_PLOT)
        atomic.publish((options.plots or folder).absolute() / name, data)
    source = source_of(options.table.absolute(), options.laws.absolute())
    shared = _trunks(options, grid)
    made = page.html(grid, wanted, table, laws, drawings, source, rows, shared)
    atomic.publish(options.out.absolute(), made)
    cells = counted(len(grid.cells) + len(rows), "cell")
    print(f"{options.out}: {cells} and {counted(len(drawings), 'plot')}.")
    return 0


def _trunks(options: argparse.Namespace, grid: Grid) -> tuple[Record, ...] | None:
    """What the cells share, where an archive was named."""
    if options.archive is None:
        return None
    return trunks.find(opened(options, Path.cwd()), (cell.record for cell in grid.cells))


def _drawings(grid: Grid) -> list[page.Drawing]:
    return [
        page.Drawing(plot, plots.svg(plot, grid, canvas.WIDE), plots.svg(plot, grid, canvas.NARROW))
        for plot in plots.PLOTS
    ]
