"""`quantgrid retry`: forget remembered failures, so that the next run tries these cells again."""

import argparse
import json
from pathlib import Path

from quantgrid.errors import ConfigRefusal, FailureClass
from quantgrid.failures import Failure
from quantgrid.load import load_settings
from quantgrid.remembered import Remembered
from quantgrid.store import open_store
from quantgrid.wording import clause, counted

HELP = "forget remembered failures, so that the next run tries these cells again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", nargs="*", help="ids of cells, or <trunk>/<milestone>")
    parser.add_argument("--all", action="store_true", help="all that failed, here or elsewhere")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    classes = [str(each) for each in FailureClass]
    parser.add_argument("--class", dest="of", choices=classes, help="only failures of a class")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Forget, and say what was forgotten."""
    root = Path.cwd()
    settings = load_settings(options.root.absolute(), {"archive": options.archive})
    memory = Remembered(root, open_store(settings.archive, root))
    found = list(memory.all_of())
    chosen = _chosen(found, options)
    for failure in chosen:
        memory.forget(failure["cell"], failure["stage"], failure["fingerprint"])
    if options.json:
        print(json.dumps(chosen, indent=2))
    for failure in [] if options.json else chosen:
        told = clause(failure["message"])
        print(f"{failure['cell']}  {failure['stage']}  {failure['class']}  {told}")
    if not options.json:
        failures = counted(len(found), "failure")
        print(f"{len(chosen)} of {failures} forgotten; the next run tries again")
    return 0


def _chosen(found: list[Failure], options: argparse.Namespace) -> list[Failure]:
    """The failures that were named.

    Raises:
        ConfigRefusal: when nothing was named, or a cell that did not fail here.
    """
    if not (options.cell or options.all or options.of):
        raise ConfigRefusal(
            "nothing was named to try again",
            seen=counted(len(found), "failure"),
            do="Name cells, or give --all or --class.",
        )
    unknown = set(options.cell) - {failure["cell"] for failure in found}
    if unknown:
        failed = ", ".join(sorted({f["cell"] for f in found}))
        raise ConfigRefusal(
            f"{', '.join(sorted(unknown))} did not fail, here or in another clone",
            expected=failed or None,
            seen=None if failed else "no failure at all",
            do="`quantgrid why CELL` tells what is known of a cell.",
        )
    return [
        failure
        for failure in found
        if (not options.cell or failure["cell"] in options.cell)
        and options.of in {None, failure["class"]}
    ]
