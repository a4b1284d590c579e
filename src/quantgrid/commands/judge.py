"""`quantgrid judge`: judge the results here, and bring their verdicts up to date."""

import argparse
import json
from collections import Counter
from pathlib import Path

from quantgrid import judging
from quantgrid.archive import opened
from quantgrid.clock import SystemClock
from quantgrid.load import load_settings
from quantgrid.verdicts import Word, reason_of, word_of

HELP = "judge the results here, and bring their verdicts up to date with the archive"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cells", nargs="*", metavar="CELL", help="only these; default: all")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def main(options: argparse.Namespace) -> int:
    """Take the newest verdict of the archive, or give one where this judge has not.

    Raises:
        ArchiveRefusal: when the archive lacks a record.
        ConfigRefusal: when a cell has no result here.
        DataFault: when a result or a verdict is damaged.
    """
    root, clock = Path.cwd(), SystemClock()
    asked = {"archive": options.archive}
    archive = opened.of(load_settings(options.root.absolute(), asked), root)
    records = list(judging.results(root, options.cells))
    judging.refuse_unarchived(archive, records)
    found = [judging.judged(archive, each, clock) for each in records]
    judging.bring(root, found)
    if options.json:
        print(json.dumps({record["cell"]: record["verdict"] for record in found}, indent=2))
        return 0
    for record in found:
        if word_of(record) != Word.VALID:
            print(f"{word_of(record)}  {record['cell']}  {reason_of(record)}")
    counts = Counter(map(word_of, found))
    print(", ".join(f"{counts[word]} {word}" for word in Word))
    return 0
