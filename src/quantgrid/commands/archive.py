"""`quantgrid archive`: what the archive holds, whether it is whole, and where its results go."""

import argparse
from collections.abc import Callable
from pathlib import Path

from quantgrid import layout
from quantgrid.archive import Archive, opened
from quantgrid.commands import _archive_look as look
from quantgrid.commands import _archive_move as move
from quantgrid.commands._archive_gc import gc
from quantgrid.errors import ArchiveRefusal
from quantgrid.load import Settings, load_settings

HELP = "show, verify, fold, copy or compare the archive; forget receipts that it does not bear out"

Act = Callable[[Archive, Settings, argparse.Namespace], int]
ACTS: dict[str, tuple[Act, str]] = {
    "status": (look.status, "what it holds and what this working copy has of it"),
    "list": (look.list_keys, "the keys of its records"),
    "show": (look.show, "the records of one cell or milestone"),
    "verify": (look.check, "read every byte; exit code 65 when one is damaged"),
    "fold": (move.fold, "bring all its current results back at once"),
    "copy": (move.copy, "copy it, with its identity, to another place; goes on where it was cut"),
    "deposit": (move.deposit, "deposit finished results that wait here"),
    "forget": (move.forget, "remove receipts of other archives and of lost records"),
    "gc": (gc, "delete training state whose results are there, whole and held by nobody"),
}
_READ_ONLY_OF_AN_ARCHIVE = ("verify", "copy", "gc")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the acts and their options."""
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    common.add_argument("--archive", help="address; that of config/config.yaml by default")
    common.add_argument("--endpoint-url", help="where its bucket is, when it is not AWS")
    common.add_argument("--json", action="store_true", help="print JSON")
    parsers = {act: acts.add_parser(act, parents=[common], help=ACTS[act][1]) for act in ACTS}
    parsers["show"].add_argument("cell", help="id of a cell, or <trunk>/<milestone>")
    parsers["list"].add_argument("--kind", choices=layout.RECORD_KINDS, help="only this kind")
    parsers["copy"].add_argument("to", help="address of the place to copy to")
    for act in ("show", "fold"):
        parsers[act].add_argument("--grid", help="grid that says which record is current")
    parsers["fold"].add_argument("--select", metavar="EXPR", help="only these cells of the grid")
    for act in ("forget", "gc"):
        parsers[act].add_argument("--yes", action="store_true", help="do it, not only list")


def main(options: argparse.Namespace) -> int:
    """Do what was asked in the current working copy."""
    asked = {"archive": options.archive, "endpoint_url": options.endpoint_url}
    asked |= {name: getattr(options, name, None) for name in ("grid", "select")}
    if options.archive:  # another archive than the configured one has another id
        asked["archive_id"] = ""
    settings = load_settings(options.root.absolute(), asked)
    archive = opened.of(settings, Path.cwd())
    if options.act in _READ_ONLY_OF_AN_ARCHIVE and archive.find_identity() is None:
        raise ArchiveRefusal(
            f"there is no archive to {options.act}",
            expected=layout.ARCHIVE_IDENTITY,
            seen="no such file",
            where=archive.store.address,
            do="Name the right place with --archive.",
        )
    return ACTS[options.act][0](archive, settings, options)
