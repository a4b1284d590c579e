"""`quantgrid fold`: bring one archived record back as a result of this working copy."""

import argparse
from pathlib import Path

from quantgrid import atomic, layout, ledger
from quantgrid.archive import Archive
from quantgrid.errors import DataFault
from quantgrid.store import open_store

HELP = "bring an archived record back into results/ and the ledger"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("record", help="key of the record in the archive")
    parser.add_argument("--archive", required=True, help="address of the archive")
    parser.add_argument("--out", required=True, type=Path, help="result file to publish")


def main(options: argparse.Namespace) -> int:
    """Verify the record, publish it, enter it into the ledger.

    Raises:
        ArchiveRefusal: when the archive lacks the record.
        DataFault: when the record is damaged or lies under another fingerprint's key.
    """
    root = Path.cwd()
    record = Archive(open_store(options.archive, root)).record(options.record)
    expected = options.record.rsplit("/", 2)[1]
    if record["fingerprint"] != expected:
        raise DataFault(
            f"the record under {options.record} is another one",
            expected=expected,
            seen=record["fingerprint"],
        )
    atomic.publish_json(root / options.out, record)
    ledger.enter(root / layout.LEDGER, root / layout.LEDGER_LOCK, record)
    return 0
