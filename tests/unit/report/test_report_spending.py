"""Where cells were computed and what it took: each attempt once, dollars only where records say."""

from typing import Any

from quantgrid.report import spending
from report_records import demo_records


def _rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    sheet = spending.sheet_of(records.values())
    return [[entry.text for entry in row] for row in sheet.rows]


def test_attempt_counts_once_when_several_cells_came_of_it() -> None:
    """One machine, one shared attempt of 1.9 s: its seconds are not multiplied by its cells."""
    records = demo_records(seeds=1)

    assert _rows(records) == [
        ["local, cpu", str(len(records)), "1", "0", "0.00", "0.00", "nothing rented"]
    ]


def test_places_stand_apart_and_together_when_there_are_several() -> None:
    """Hours, interruptions and dollars of each platform, then the sum."""
    records = demo_records(seeds=1)
    for number, record in enumerate(records.values()):
        record["links"] = [{**record["links"][0], "attempt": f"a{number}", "wall_s": 3600.0}]
        record["weights"]["links"] = record["links"]
    some = list(records.values())[:2]
    for record in some:
        record["platform"] = {**record["platform"], "name": "runpod", "device_name": "H100"}
        record["cost"] = {"usd": 1.25}
        record["counters"] = {"links": 2, "interruptions": 1, "failures": 0}

    rows = {row[0]: row[1:] for row in _rows(records)}

    assert rows["runpod, H100"][:4] == ["2", "2", "2", "2.00"]
    assert rows["runpod, H100"][-1] == "2.50"
    assert rows["local, cpu"][-1] == "nothing rented"
    assert rows["together"][:4] == [str(len(records)), str(len(records)), "2", f"{len(records)}.00"]
    assert rows["together"][-1] == "2.50"
