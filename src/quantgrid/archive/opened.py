"""The archive that a command line names: options, and the archive that they mean."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from quantgrid.archive import Archive
from quantgrid.store import open_store

if TYPE_CHECKING:  # the runner reads no configuration
    from quantgrid.load import Settings


def configure(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    """Declare the options that name an archive."""
    parser.add_argument("--archive", required=is_required, help="address of the archive")
    parser.add_argument("--also", action="append", default=[], help="archive to read from as well")
    parser.add_argument("--archive-id", default="", help="id that the archive must have")


def words(settings: "Settings", within: Path | None = None) -> list[str]:
    """The options of a command line that name the archive of the settings.

    Args:
        settings: The settings.
        within: The working copy that folders are relative to, for a line that is run elsewhere.
    """
    pinned = ["--archive-id", settings.archive_id] if settings.archive_id else []
    also = [word for each in settings.archives for word in ("--also", _named(each, within))]
    return ["--archive", _named(settings.archive, within), *also, *pinned]


def _named(address: str, within: Path | None) -> str:
    is_folder = "://" not in address
    return str(within / address) if within and is_folder else address


def opened(options: argparse.Namespace, root: Path) -> Archive:
    """The archive that the options mean."""
    return _at(options.archive, options.also, options.archive_id, root)


def of(settings: "Settings", root: Path) -> Archive:
    """The archive of a working copy, with those that are read as well."""
    return _at(settings.archive, settings.archives, settings.archive_id, root)


def _at(address: str, also: Iterable[str], pin: str, root: Path) -> Archive:
    others = [open_store(each, root) for each in also]
    return Archive(open_store(address, root), others, pin)
