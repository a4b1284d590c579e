"""What an archive holds, beside what a working copy knows of it: pure, from listings."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quantgrid import layout

_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """An archive and a working copy, compared by keys of records.

    `astray` are receipts of this working copy that another archive gave or whose record is gone,
    `unfolded` archived records of cells without a result here, `superseded` those of cells whose
    result here is another record, `unarchived` results here whose record the archive lacks,
    `waiting` finished results that could not be deposited yet.
    """

    address: str
    identity: str | None
    records: Mapping[str, int]
    astray: tuple[str, ...]
    unfolded: tuple[str, ...]
    superseded: tuple[str, ...]
    unarchived: tuple[str, ...]
    waiting: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)

    def text(self) -> str:
        """All of it for a person; long lists are cut."""
        counts = ", ".join(f"{number} {kind}" for kind, number in self.records.items())
        lines = [f"archive {self.identity or '(nothing was deposited yet)'}", f"at {self.address}"]
        lines.append(f"records: {counts}")
        for words, names in (
            ("receipts here that it lacks", self.astray),
            ("archived, not folded here", self.unfolded),
            ("archived, another record is folded here", self.superseded),
            ("folded here, not archived", self.unarchived),
            ("finished here, waiting for the archive", self.waiting),
        ):
            lines.append(f"{words}: {len(names)}")
            lines += [f"  {name}" for name in names[:_NAMED]]
            lines += [f"  ... and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
        return "\n".join(lines)


def survey(
    index: frozenset[str],
    *,
    address: str,
    identity: str | None,
    astray: Iterable[str],
    folded: Mapping[str, str],
    waiting: Iterable[str] = (),
) -> Survey:
    """Compare an archive with a working copy.

    Args:
        index: Keys of all records of the archive.
        address: Where it is.
        identity: Its id, None when nothing was ever deposited.
        astray: Receipts of the working copy that the archive does not bear out.
        folded: Cell id to fingerprint of the result in the working copy.
        waiting: Keys of results that could not be deposited yet.
    """
    here = {layout.record_key("cells", cell, own) for cell, own in folded.items()}
    away = sorted(key for key in index - here if key.startswith("cells/"))
    counts = Counter(key.partition("/")[0] for key in index)
    return Survey(
        address=address,
        identity=identity,
        records={kind: counts[kind] for kind in layout.RECORD_KINDS},
        astray=tuple(sorted(astray)),
        unfolded=tuple(key for key in away if layout.owner_of(key) not in folded),
        superseded=tuple(key for key in away if layout.owner_of(key) in folded),
        unarchived=tuple(sorted(here - index)),
        waiting=tuple(waiting),
    )
