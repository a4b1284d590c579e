"""`quantgrid judge`: judge the results here, and bring their verdicts up to date."""

import argparse
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

from quantgrid import judging
from quantgrid.archive import Archive, opened
from quantgrid.archive.record import Record
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_settings
from quantgrid.verdicts import Said, Word, base_of, counting, reason_of, word_of

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
    said = _counting(root, archive, found)
    for cell, (word, reason) in said.items():
        if word != Word.VALID:
            print(f"{word}  {cell}  {reason}")
    counts = Counter(each.word for each in said.values())
    print(", ".join(f"{counts[word]} {word}" for word in Word))
    return 0


def _counting(root: Path, archive: Archive, found: list[Record]) -> dict[str, Said]:
    """What counts for each cell, as in table and page: a form is never better than its base."""
    own = {str(record["cell"]): Said(word_of(record), reason_of(record)) for record in found}
    bases = dict(own)
    for base in {*map(base_of, own)} - own.keys():
        with suppress(ConfigRefusal):  # one that has no result here says nothing
            bases[base] = judging.said_of(archive, *judging.results(root, [base]))
    return {cell: counting(said, bases.get(base_of(cell))) for cell, said in own.items()}
