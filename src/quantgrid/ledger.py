"""ledger.csv: what was run, where and at what cost; tracked by git, so that the repository knows.

One row per cell and fingerprint, sorted; rows are added or brought up to date, never removed.
"""

import csv
import fcntl
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from quantgrid import atomic
from quantgrid.archive.record import Record
from quantgrid.errors import DataFault
from quantgrid.verdicts import word_of

_COST = re.compile(r"(?:\d+(?:\.\d+)?)?")
_TORN = "\ufffd"
"""Stands for a byte that is no UTF-8."""

COLUMNS = ("cell", "fingerprint", "verdict", "where", "when", "cost_usd")


def enter(path: Path, lock: Path, record: Record) -> None:
    """Add a folded record to the ledger, or bring its row up to date; see `enter_all`."""
    enter_all(path, lock, [record])


def enter_all(path: Path, lock: Path, records: Iterable[Record]) -> None:
    """Add folded records to the ledger, or bring their rows up to date, in one publication.

    Args:
        path: The ledger.
        lock: A file that serialises the folds of this working copy.
        records: Verified records of kind `cells`, each with the verdict on it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        rows = read(path)
        new = {(row["cell"], row["fingerprint"]): row for row in map(_row, records)}
        if any(rows.get(key) != row for key, row in new.items()):
            atomic.publish(path, _text(rows | new).encode())


def read(path: Path) -> dict[tuple[str, str], Mapping[str, str]]:
    """The rows of a ledger by cell and fingerprint; none when there is no ledger yet.

    Raises:
        DataFault: for a line that is no row, such as one of a merge that was left unfinished.
    """
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) or [""]
    rows: dict[tuple[str, str], Mapping[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        fields = next(csv.reader([line]), [])
        is_head, is_whole = tuple(fields) == COLUMNS, line.endswith("\n") and _TORN not in line
        if not (is_whole and (is_head or (number > 1 and _is_row(fields)))):
            raise DataFault(
                "the ledger cannot be read",
                expected=",".join(COLUMNS),
                seen=repr(line[:80]),
                where=f"{path}:{number}",
                do="Mend that line, or restore the file from git; every fold adds its row again.",
            )
        rows[fields[0], fields[1]] = dict(zip(COLUMNS, fields, strict=True))
    del rows[COLUMNS[0], COLUMNS[1]]
    return rows


def _is_row(fields: Sequence[str]) -> bool:
    return len(fields) == len(COLUMNS) and bool(_COST.fullmatch(fields[-1]))


def _row(record: Record) -> dict[str, str]:
    cost = record["cost"]
    return {
        "cell": record["cell"],
        "fingerprint": record["fingerprint"],
        "verdict": word_of(record),
        "where": record["platform"]["name"],
        "when": record["deposited"],
        "cost_usd": "" if cost is None else f"{cost['usd']:.4f}",
    }


def _text(rows: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    return out.getvalue()
