"""`quantgrid diff`: two tables of results, cell by cell."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.report import comparing

HELP = "compare the tables of two grids, or of one grid at two times"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("first", help="name of a grid that was run here, or a table (CSV)")
    parser.add_argument("second", help="the same; differences are second minus first")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--most", type=int, default=10, help="cells to list (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> int:
    """Print what differs; equal and different tables are both no error.

    Raises:
        ConfigRefusal: for a table that is not there.
        DataFault: for a file that is no table.
    """
    root = options.root.absolute()
    tables = [_table(root, name) for name in (options.first, options.second)]
    found = comparing.compare(*tables)
    if options.json:
        means = [mean._asdict() for mean in found.means()]
        pairs = [pair._asdict() for pair in found.pairs]
        print(json.dumps({**asdict(found), "pairs": pairs, "means": means}, indent=2))
    else:
        print("\n".join(comparing.lines(found, (options.first, options.second), options.most)))
    return 0


def _table(root: Path, name: str) -> dict[str, comparing.Row]:
    path = Path(name)
    if not path.exists() or path.is_dir():  # a pipe of `git show` is a table as well
        path = root / layout.TABLE.format(grid=name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefusal(
            "there is no table to compare",
            expected="the name of a grid that was run here, or a CSV file",
            seen=name,
            where=path,
            do="`snakemake` makes results/<grid>.csv; `git show`, or another copy, has others.",
        ) from error
    return comparing.parse(text, str(path))
