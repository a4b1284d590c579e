"""`quantgrid fold`: bring one archived record back as a result of this working copy."""

import argparse
from pathlib import Path

from quantgrid import atomic, judging, layout, ledger
from quantgrid.archive.opened import configure as configure_archive
from quantgrid.archive.opened import opened
from quantgrid.clock import SystemClock

HELP = "bring an archived record back into results/ and the ledger"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("record", help="key of the record in the archive")
    configure_archive(parser)
    parser.add_argument("--out", required=True, type=Path, help="result file to publish")


def main(options: argparse.Namespace) -> int:
    """Verify the record, judge it, enter it into the ledger, publish it.

    The result comes last: where it is, verdict and ledger know of it.

    Raises:
        ArchiveRefusal: when the archive lacks the record.
        DataFault: when the record, a verdict on it or the ledger is damaged.
    """
    root = Path.cwd()
    archive = opened(options, root)
    record = archive.record(options.record)
    judged = judging.judged(archive, record, SystemClock())
    judging.publish(root / options.out, judged)
    ledger.enter(root / layout.LEDGER, root / layout.LEDGER_LOCK, judged)
    atomic.publish_json(root / options.out, record)
    return 0
