"""`quantgrid laws`: whether a finished grid keeps the promised laws, beside published numbers."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.load import load_settings
from quantgrid.report import acceptance
from quantgrid.report.records import read_grid, read_wanted

HELP = "say whether a finished grid shows the published laws of quantisation"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "grid", nargs="?", help="a grid whose cells are all there; the configured one by default"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--out", type=Path, help="write the same as Markdown here")


def main(options: argparse.Namespace) -> int:
    """Print every promise and the table beside the research's; 1 when a law does not hold."""
    root = options.root.absolute()
    name = options.grid or load_settings(root, {}).grid
    wanted = read_wanted(root / layout.WANTED.format(grid=name))
    grid = read_grid(wanted, root / layout.RESULTS)
    found = acceptance.promises(grid)
    page = acceptance.markdown(found, acceptance.beside(grid))
    if options.out:
        atomic.publish(options.out.absolute(), page.encode())
    print(page)
    broken = [each.name for each in found if not each.is_kept]
    print(f"{len(found) - len(broken)} of {len(found)} laws hold in grid {name}")
    return 1 if broken or not found else 0
