"""The damage law of any table: of this project, or of anybody who has these columns.

A table is a CSV with `method` (or `scheme`), `bits`, `tokens` (or `tokens_seen`), `parameters` and
`delta`: damage in nats per token against the same model unquantised.  `group`, `scale` and
`zero_point`, where they are there, tell apart ways to quantise; `z`, where it is there, leaves out
damage that is not told from zero; `verdict`, where it is there, whatever is not VALID.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping

from quantgrid.errors import DataFault
from quantgrid.report.fits import Fitted, Point, find_law
from quantgrid.report.scaling import is_counted
from quantgrid.report.stats import Z_THRESHOLD

WAY = ("method", "scheme", "group", "scale", "zero_point")


def damage_laws(lines: Iterable[str], *, where: str) -> list[Fitted]:
    """A law for every way to quantise that a table has enough of; lines with # are remarks.

    Raises:
        DataFault: when a column is missing or a number is none.
    """
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    ways: dict[str, list[tuple[str, Point]]] = defaultdict(list)
    try:
        for row in rows:
            if row["bits"].isdigit() and row["delta"] and is_counted(row) and _is_told(row):
                ways[_way(row)].append((row.get("variant") or row["bits"], _point(row)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataFault(
            "this is no table of damages",
            expected="columns method, bits, tokens, parameters and delta, with numbers",
            seen=f"{type(error).__name__}: {error}",
            where=where,
        ) from error
    found = (
        (way, points, find_law([point for _, point in points])) for way, points in ways.items()
    )
    return [
        Fitted(way, tuple(dict.fromkeys(name for name, _ in points)), law)
        for way, points, law in found
        if law
    ]


def _is_told(row: Mapping[str, str]) -> bool:
    """Whether a damage is told from zero, as far as the table says how sure it is."""
    return float(row.get("z") or "inf") > Z_THRESHOLD and float(row["delta"]) > 0


def _way(row: Mapping[str, str]) -> str:
    return " ".join(filter(None, (row.get(name) for name in WAY)))


def _point(row: Mapping[str, str]) -> Point:
    return Point(
        float(row["bits"]),
        float(row.get("tokens_seen") or row["tokens"]),
        float(row["parameters"]),
        float(row["delta"]),
    )
