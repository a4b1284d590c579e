"""`quantgrid fold`: bring one archived record back as a result of this working copy."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout, ledger
from quantgrid.archive.opened import configure as configure_archive
from quantgrid.archive.opened import opened

HELP = "bring an archived record back into results/ and the ledger"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("record", help="key of the record in the archive")
    configure_archive(parser)
    parser.add_argument("--out", required=True, type=Path, help="result file to publish")


def main(options: argparse.Namespace) -> int:
    """Verify the record, enter it into the ledger, publish it.

    The result comes last: where it is, the ledger knows of it.

    Raises:
        ArchiveRefusal: when the archive lacks the record.
        DataFault: when the record or the ledger is damaged.
    """
    root = Path.cwd()
    record = opened(options, root).record(options.record)
    ledger.enter(root / layout.LEDGER, root / layout.LEDGER_LOCK, record)
    atomic.publish_json(root / options.out, record)
    return 0
