"""`quantgrid table`: the table of a grid and what it says about the laws."""

import argparse
from pathlib import Path

from quantgrid import atomic
from quantgrid.report import laws, own, table
from quantgrid.report.records import read_grid, read_wanted
from quantgrid.wording import agreeing, counted

HELP = "write the table of a grid and its laws from verified records"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--wanted", type=Path, required=True, help="plan/<grid>.json")
    parser.add_argument("--out", type=Path, required=True, help="the table to write (CSV)")
    parser.add_argument("--results", type=Path, help="folder of the cells; default: that of --out")
    parser.add_argument("--laws", type=Path, required=True, help="the laws to write (CSV)")


def main(options: argparse.Namespace) -> int:
    """Write both or neither."""
    results = (options.results or options.out.parent).absolute()
    models, programs = own.split(read_wanted(options.wanted.absolute()))
    grid, rows = read_grid(models, results), own.read_rows(programs, results)
    written = {
        options.laws: table.csv_bytes(laws.lines(laws.outcomes(grid))),
        options.out: table.csv_bytes(own.joined(table.lines(grid), rows)),
    }
    for path, data in written.items():
        atomic.publish(path.absolute(), data)
    holding = written[options.laws].decode().count(",yes\n")
    cells, holds = counted(len(grid.cells) + len(rows), "cell"), agreeing(holding, "holds", "hold")
    print(f"{cells} in {options.out}; {counted(holding, 'law outcome')} {holds}.")
    return 0
