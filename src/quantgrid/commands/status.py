"""`quantgrid status`: whether a controller runs here, how far it is, and what failed."""

import argparse
import json
from pathlib import Path

from quantgrid import outlook, standing

HELP = "say whether a controller runs in this working copy, how far it is and what failed"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Look at the current working copy; asks nothing of the controller."""
    seen = standing.look(Path.cwd())
    if options.json:
        print(json.dumps(outlook.to_json(seen), indent=2))
    else:
        print("\n".join(outlook.lines(seen)))
    return 0
