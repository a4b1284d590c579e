"""Receipts: the small files that Snakemake moves, each naming a record in an archive."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from quantgrid import atomic, layout
from quantgrid.archive import Archive, Deposit
from quantgrid.errors import ArchiveRefusal
from quantgrid.wording import counted

_DEPOSITED = (layout.TRUNK_RECEIPT, layout.CELL_RECEIPT, layout.EVALUATION_RECEIPT)
_NAMED = 3


def publish(path: Path, deposit: Deposit) -> None:
    """Write the receipt of a deposit."""
    atomic.publish_json(path, deposit._asdict())


class Receipt(NamedTuple):
    """A receipt of this working copy: where it lies and what it says."""

    path: Path
    record: str
    archive: str

    def is_astray(self, index: frozenset[str], archives: Iterable[str | None]) -> bool:
        """Whether no archive bears it out: other ones, or one that lost the record."""
        return self.archive not in archives or self.record not in index


def receipts(root: Path) -> Iterator[Receipt]:
    """All receipts of records; an unreadable one was never published and is left to Snakemake."""
    for pattern in _DEPOSITED:
        folder = root / pattern.partition("/{")[0]
        for path in sorted(folder.rglob("*.json")):
            try:
                said = json.loads(path.read_bytes())
                record, archive = said["record"], said["archive"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if isinstance(record, str) and isinstance(archive, str):
                yield Receipt(path.relative_to(root), record, archive)


def forget(root: Path, given_up: Iterable[Receipt]) -> None:
    """Remove receipts, so that what they stood for is restored or made again."""
    for receipt in given_up:
        (root / receipt.path).unlink(missing_ok=True)


def vouch_for(archive: Archive, root: Path) -> None:
    """Refuse an archive that lacks what this working copy deposited; see `vouch`."""
    identity, others = archive.find_identity(), archive.other_identities()
    address = archive.store.address
    vouch(root, index=archive.index(), archive=identity, address=address, others=others)


def vouch(
    root: Path,
    *,
    index: frozenset[str],
    archive: str | None,
    address: str,
    others: frozenset[str] = frozenset(),
) -> None:
    """Refuse an archive that lacks what this working copy deposited.

    Args:
        root: The working copy.
        index: Keys of all records of the archive.
        archive: Identity of the archive, None when it holds nothing.
        address: Where the archive is.
        others: Identities of archives that are read as well.

    Raises:
        ArchiveRefusal: for another archive, or one that lost records.
    """
    known = list(receipts(root))
    foreign = [r.archive for r in known if r.archive not in {archive, *others}]
    if foreign:
        raise ArchiveRefusal(
            "this is not the archive that this working copy deposited into, so nothing was planned",
            expected=f"archive {foreign[0]} ({counted(foreign.count(foreign[0]), 'receipt')})",
            seen=f"archive {archive}" if archive else _without_identity(index),
            where=address,
            do="Set `archive` to the place where it is now, or put it back from a copy, "
            f"or give those receipts up: `quantgrid archive forget --archive {address} --yes`.",
        )
    _refuse_lost(known, index, address)


def _refuse_lost(known: list[Receipt], index: frozenset[str], address: str) -> None:
    lost = [r for r in known if r.record not in index]
    if lost:
        names = ", ".join(r.record for r in lost[:_NAMED])
        raise ArchiveRefusal(
            f"the archive lost {counted(len(lost), 'record')} that this working copy deposited, "
            "so nothing was planned",
            expected=names + (" ..." if len(lost) > _NAMED else ""),
            seen=f"{len(known) - len(lost)} of {len(known)} deposited records",
            where=address,
            do="Restore the archive from a copy, "
            f"or make them anew after `quantgrid archive forget --archive {address} --yes`.",
        )


def _without_identity(index: frozenset[str]) -> str:
    return (
        f"{counted(len(index), 'record')} without {layout.ARCHIVE_IDENTITY}"
        if index
        else "an empty place"
    )
