"""`quantgrid reject CELL --reason`: a person's verdict, which no judge overrules."""

import argparse
import getpass
import json
from pathlib import Path

from quantgrid import judging
from quantgrid.archive import opened
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_settings
from quantgrid.wording import agreeing

HELP = "reject a result for a reason: it leaves table, plots and averages"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cells with a result here")
    parser.add_argument("--reason", required=True, help="one sentence that will be shown")
    parser.add_argument("--by", help="who rejects it; default: who is logged in")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def main(options: argparse.Namespace) -> int:
    """Append a rejection to the archive, then show it here.

    Raises:
        ConfigRefusal: for an empty reason, or a cell without result here.
        PlatformFault: when the archive cannot be written.
    """
    if not options.reason.strip():
        raise ConfigRefusal("a rejection needs a reason", do="Say why, for whoever reads it later.")
    root, clock = Path.cwd(), SystemClock()
    asked = {"archive": options.archive}
    archive = opened.of(load_settings(options.root.absolute(), asked), root)
    by, reason = options.by or getpass.getuser(), options.reason.strip()
    found = [
        judging.rejected(archive, record, clock, by=by, reason=reason)
        for record in judging.results(root, options.cells)
    ]
    judging.bring(root, found)
    if options.json:
        told = [{"cell": cell, "reason": reason, "by": by} for cell in options.cells]
        print(json.dumps(told, indent=2))
    else:
        names = ", ".join(options.cells)
        its = agreeing(len(options.cells), "it", "them")
        print(
            f"rejected {names}; the next run of a grid that has {its} makes its table and page anew"
        )
    return 0
