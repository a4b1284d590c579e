"""Where the cells of a grid were computed, how long it took, and what it did cost."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from quantgrid.archive.record import Record
from quantgrid.links import FAILED, INTERRUPTED
from quantgrid.report.sections import Entry, Head, Sheet

LABEL = "Time and money by platform"
_HOUR_S = 3600.0


class Place(NamedTuple):
    """A platform and a device that cells were computed on."""

    platform: str
    device: str


class Spent(NamedTuple):
    """What the cells of a place took.

    Args:
        cells: Cells whose measurement was made there.
        links: Attempts that led to trunks, weights and measurements; those of a base count for the
            base.
        interrupted: Of these, attempts that were ended from outside.
        failed: Of these, attempts that ended in a failure.
        wall_s: Seconds of all these attempts.
        cpu_s: Processor seconds of them.
        usd: What records say that they did cost; None when none says it.
    """

    cells: int
    links: int
    interrupted: int
    failed: int
    wall_s: float
    cpu_s: float
    usd: float | None

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Spent":
        """The sum of the records of one place; an attempt that made several counts once."""
        known = list(records)
        links = {link["attempt"]: link for record in known for link in _links(record)}.values()
        costs = [record["cost"]["usd"] for record in known if record.get("cost")]
        return cls(
            cells=sum(record["kind"] == "cells" for record in known),
            links=len(links),
            interrupted=sum(link.get("end") == INTERRUPTED for link in links),
            failed=sum(link.get("end") == FAILED for link in links),
            wall_s=sum(link.get("wall_s") or 0.0 for link in links),
            cpu_s=sum(link.get("cpu_s") or 0.0 for link in links),
            usd=sum(costs) if costs else None,
        )


def sheet_of(records: Iterable[Record]) -> Sheet:
    """One row a platform and device, and their sum where there are several.

    Args:
        records: Of cells, and of the milestones that they share.
    """
    by_place: dict[Place, list[Record]] = {}
    for record in records:
        by_place.setdefault(_place(record["platform"]), []).append(record)
    rows = [_row(", ".join(place), Spent.of(of)) for place, of in by_place.items()]
    if len(by_place) > 1:
        rows.append(_row("together", Spent.of(each for of in by_place.values() for each in of)))
    names = ("cells", "attempts", "interrupted", "hours", "CPU hours", "dollars")
    return Sheet(LABEL, (Head("where", is_number=False), *map(Head, names)), rows)


def _row(title: str, spent: Spent) -> list[Entry]:
    hours = [f"{seconds / _HOUR_S:.2f}" for seconds in (spent.wall_s, spent.cpu_s)]
    usd = "nothing rented" if spent.usd is None else f"{spent.usd:.2f}"
    numbers = (spent.cells, spent.links, spent.interrupted)
    return [Entry(title), *map(Entry, [*map(str, numbers), *hours, usd])]


def _place(platform: Mapping[str, Any]) -> Place:
    device = platform.get("device_name") or platform["device"]
    return Place(platform["name"], str(device))


def _links(record: Record) -> Iterator[Mapping[str, Any]]:
    weights = record.get("weights") or {}
    for link in [*(weights.get("links") or []), *(record.get("links") or [])]:
        if link.get("attempt"):
            yield link
