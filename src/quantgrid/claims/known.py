"""What is known of cells: from the ledger, the archive, and the grids that are declared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from quantgrid import layout


class Run(NamedTuple):
    """One run of a cell that the ledger or the archive knows.

    Args:
        fingerprint: Of its result.
        verdict: As the ledger has it; empty when only the archive knows of the run.
        where: The platform, as the ledger has it.
        when: The time of its deposit, as the ledger has it.
        cost_usd: As the ledger has it, None where nothing was paid.
        line: Of the ledger; 0 when only the archive knows of the run.
        key: Of its record in the archive; empty when the archive lacks it or was not asked.
    """

    fingerprint: str
    verdict: str = ""
    where: str = ""
    when: str = ""
    cost_usd: float | None = None
    line: int = 0
    key: str = ""

    def evidence(self) -> str:
        """Where to look, for a person."""
        if self.line:
            told = f"{self.verdict} on {self.where} at {self.when}"
            return f"{layout.LEDGER}:{self.line} has it as {told}"
        return f"the archive has {self.key}"


@dataclass(frozen=True, slots=True)
class Known:
    """All runs by cell, and the fingerprints that each declared grid means now, by cell."""

    runs: Mapping[str, tuple[Run, ...]]
    grids: Mapping[str, Mapping[str, str]]
    is_archive_read: bool
    platforms: frozenset[str] = frozenset()

    def on(self, platform: str) -> "Known":
        """What is known of runs on one platform; where the archive alone has one, nobody knows."""
        runs = {
            cell: tuple(run for run in each if run.where == platform)
            for cell, each in self.runs.items()
        }
        return replace(self, runs=runs)

    def newest(self, cell: str) -> Run | None:
        """The run that bears a claim out: in the ledger before the archive, the latest first."""
        found = self.runs.get(cell, ())
        return max(found, key=lambda run: (run.line > 0, run.when, run.key), default=None)

    def current(self, grid: str, cell: str) -> Run | None:
        """The run of a cell as the grid means it now."""
        wanted = self.grids[grid][cell]
        found = [run for run in self.runs.get(cell, ()) if run.fingerprint == wanted]
        return max(found, key=lambda run: run.line > 0, default=None)

    def meant(self, cell: str) -> str | None:
        """The fingerprint that some declared grid means by a cell now, None when none has it."""
        return next((cells[cell] for cells in self.grids.values() if cell in cells), None)


def gather(
    rows: Mapping[tuple[str, str], Mapping[str, str]],
    index: Iterable[str] | None,
    grids: Mapping[str, Mapping[str, str]],
) -> Known:
    """Put together what is known.

    Args:
        rows: Of the ledger by cell and fingerprint, in the order of its lines.
        index: Keys of all records of the archive; None when it was not asked.
        grids: By name, the current fingerprint of each of its cells.
    """
    keys = {
        (layout.owner_of(key), layout.fingerprint_of(key)): key
        for key in index or ()
        if key.startswith("cells/")
    }
    runs: dict[str, list[Run]] = {}
    for line, (own, row) in enumerate(rows.items(), start=2):
        paid = float(row["cost_usd"]) if row["cost_usd"] else None
        told = (row["verdict"], row["where"], row["when"], paid, line)
        runs.setdefault(own[0], []).append(Run(own[1], *told, keys.pop(own, "")))
    for (cell, fingerprint), key in keys.items():
        runs.setdefault(cell, []).append(Run(fingerprint, key=key))
    done = {cell: tuple(each) for cell, each in runs.items()}
    return Known(done, grids, index is not None)
