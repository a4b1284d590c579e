"""`quantgrid retry`: forget remembered failures, so that the next run tries these cells again."""

import argparse
import json
from pathlib import Path

from quantgrid import failures
from quantgrid.errors import ConfigRefusal
from quantgrid.failures import Failure

HELP = "forget remembered failures, so that the next run tries these cells again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", nargs="*", help="ids of cells, or <trunk>/<milestone>")
    parser.add_argument("--all", action="store_true", help="all that failed in this working copy")
    parser.add_argument("--class", dest="of", metavar="CLASS", help="only failures of a class")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Forget, and say what was forgotten."""
    root = Path.cwd()
    found = list(failures.all_of(root))
    chosen = _chosen(found, options)
    for failure in chosen:
        failures.forget(root, failure["cell"], failure["stage"], failure["fingerprint"])
    if options.json:
        print(json.dumps(chosen, indent=2))
    for failure in [] if options.json else chosen:
        print(f"{failure['cell']}  {failure['stage']}  {failure['class']}  {failure['message']}")
    if not options.json:
        print(f"{len(chosen)} of {len(found)} failures forgotten; the next run tries them again")
    return 0


def _chosen(found: list[Failure], options: argparse.Namespace) -> list[Failure]:
    """The failures that were named.

    Raises:
        ConfigRefusal: when nothing was named, or a cell that did not fail here.
    """
    if not (options.cell or options.all or options.of):
        raise ConfigRefusal(
            "nothing was named to try again",
            seen=f"{len(found)} failures in this working copy",
            do="Name cells, or give --all or --class.",
        )
    unknown = set(options.cell) - {failure["cell"] for failure in found}
    if unknown:
        raise ConfigRefusal(
            f"{', '.join(sorted(unknown))} did not fail in this working copy",
            expected=sorted({failure["cell"] for failure in found}) or "no failure at all",
            do="`quantgrid why CELL` tells what is known of a cell.",
        )
    return [
        failure
        for failure in found
        if (not options.cell or failure["cell"] in options.cell)
        and options.of in {None, failure["class"]}
    ]
