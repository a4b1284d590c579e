"""`quantgrid reject CELL --reason`: a person's verdict, which no judge overrules."""

import argparse
import getpass
import json
import os
from collections.abc import Iterable
from pathlib import Path

from quantgrid import judging, layout, ledger
from quantgrid.archive import opened
from quantgrid.archive.record import Record
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal
from quantgrid.lineage import Science, trace
from quantgrid.load import Settings, load_grid, load_settings
from quantgrid.wording import agreeing

_MOST = 500

HELP = "reject a result for a reason: it leaves table, plots and averages"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cells with a result here")
    parser.add_argument("--reason", required=True, help="one sentence that will be shown")
    parser.add_argument("--by", help="who rejects it; default: who is logged in")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="refuse results that are not those of this grid")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def main(options: argparse.Namespace) -> int:
    """Append a rejection to the archive, then show it here.

    What may be refused is looked at before the first is appended: the archive forgets nothing.

    Raises:
        ArchiveRefusal: when the archive lacks a record.
        ConfigRefusal: for an empty reason, a cell without result here, or one of another grid.
        DataFault: when a result or the ledger is damaged.
        PlatformFault: when the archive cannot be written.
    """
    by, reason = _line(options.by or _who()), _line(options.reason)
    if not reason:
        raise ConfigRefusal("a rejection needs a reason", do="Say why, for whoever reads it later.")
    _refuse_long(reason)
    root, clock = Path.cwd(), SystemClock()
    asked = {"archive": options.archive, "grid": options.grid}
    settings = load_settings(options.root.absolute(), asked)
    archive = opened.of(settings, root)
    records = list(judging.results(root, options.cells))
    _refuse_others(records, settings, options.grid)
    judging.refuse_unarchived(archive, records)
    ledger.read(root / layout.LEDGER)
    found = [judging.rejected(archive, each, clock, by=by, reason=reason) for each in records]
    judging.bring(root, found)
    cells = [str(record["cell"]) for record in found]
    if options.json:
        told = [{"cell": cell, "reason": reason, "by": by} for cell in cells]
        print(json.dumps(told, indent=2))
    else:
        names = ", ".join(cells)
        its = agreeing(len(cells), "it", "them")
        print(
            f"rejected {names}; the next run of a grid that has {its} makes its table and page anew"
        )
    return 0


def _refuse_long(reason: str) -> None:
    if len(reason) > _MOST:
        raise ConfigRefusal(
            "a rejection's reason is one sentence, in table and page for ever",
            expected=f"at most {_MOST} letters",
            seen=len(reason),
            do="Write the rest into a document.",
        )


def _refuse_others(records: Iterable[Record], settings: Settings, grid: str | None) -> None:
    """Hold that a grid that was named means these very results.

    Raises:
        ConfigRefusal: naming the first that it does not mean.
    """
    if not grid:
        return
    cells = trace(load_grid(settings.root, grid), Science(settings.root)).cells
    for record in records:
        stage = cells.get(str(record["cell"]))
        if stage is None or stage.fingerprint != record["fingerprint"]:
            raise ConfigRefusal(
                f"the result of {record['cell']} here is none of grid {grid}, so nothing "
                "was rejected",
                expected=f"fingerprint {stage.fingerprint[:16]}" if stage else "a cell of it",
                seen=f"fingerprint {str(record['fingerprint'])[:16]}",
                do=f"`quantgrid cells --grid {grid}` lists its cells.",
            )


def _line(text: str) -> str:
    """A text as one line that every table, page and terminal can show.

    Raises:
        ConfigRefusal: for bytes that are no text.
    """
    try:
        told = os.fsencode(text).decode()
    except UnicodeDecodeError as error:
        raise ConfigRefusal(
            "what was typed is no text",
            expected="UTF-8",
            seen=ascii(text),
            do="Type it again in plain letters: it is kept for ever.",
        ) from error
    return " ".join("".join(sign if sign.isprintable() else " " for sign in told).split())


def _who() -> str:
    """Who is logged in.

    Raises:
        ConfigRefusal: where this system knows no name of the user, as in some containers.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # OSError since Python 3.13
        raise ConfigRefusal(
            "nobody knows who rejects it", seen=f"user {os.getuid()}", do="Give --by NAME."
        ) from error
