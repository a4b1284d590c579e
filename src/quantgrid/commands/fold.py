"""`quantgrid fold`: bring one archived record back as a result of this working copy."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout, ledger
from quantgrid.archive import Archive
from quantgrid.store import open_store

HELP = "bring an archived record back into results/ and the ledger"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("record", help="key of the record in the archive")
    parser.add_argument("--archive", required=True, help="address of the archive")
    parser.add_argument("--out", required=True, type=Path, help="result file to publish")


def main(options: argparse.Namespace) -> int:
    """Verify the record, enter it into the ledger, publish it.

    The result comes last: where it is, the ledger knows of it.

    Raises:
        ArchiveRefusal: when the archive lacks the record.
        DataFault: when the record or the ledger is damaged.
    """
    root = Path.cwd()
    record = Archive(open_store(options.archive, root)).record(options.record)
    ledger.enter(root / layout.LEDGER, root / layout.LEDGER_LOCK, record)
    atomic.publish_json(root / options.out, record)
    return 0
