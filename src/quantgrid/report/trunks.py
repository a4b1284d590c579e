"""The trunks that the bases of a grid were cut from: several cells share each, and none tells."""

from collections.abc import Iterable, Iterator

from quantgrid.archive import Archive
from quantgrid.archive.record import Record
from quantgrid.errors import QuantgridError

_TRAINED = frozenset({"cooldown", "qat"})
"""Stages whose weights begin at a milestone of a trunk."""
_MILESTONE = "milestone"


def find(archive: Archive, cells: Iterable[Record]) -> tuple[Record, ...] | None:
    """The records of the milestones behind some cells, each once; None when one cannot be read.

    Args:
        archive: Where the cells were deposited.
        cells: Records of cells.
    """
    try:
        keys = sorted(set(_milestones(archive, cells)))
        return tuple(record for key in keys if (record := archive.find_record(key)))
    except QuantgridError:  # a page is worth having without them, and says so
        return None


def _milestones(archive: Archive, cells: Iterable[Record]) -> Iterator[str]:
    """Keys of what weights of the cells were trained from."""
    for cell in cells:
        is_trained = (cell.get("weights") or {}).get("stage") in _TRAINED
        weights = archive.find_record(cell["parents"]["weights"]) if is_trained else None
        if weights and _MILESTONE in weights["parents"]:
            yield weights["parents"][_MILESTONE]
