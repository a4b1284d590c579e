"""Where cells were computed and what it took: each attempt once, dollars only where records say."""

from pathlib import Path
from typing import Any

import core_parts as core
from quantgrid.archive import Archive
from quantgrid.report import spending, trunks
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
        record["links"] = [{**record["links"][0], "end": "interrupted"}]
        record["weights"]["links"] = record["links"]

    rows = {row[0]: row[1:] for row in _rows(records)}

    assert rows["runpod, H100"][:4] == ["2", "2", "2", "2.00"]
    assert rows["runpod, H100"][-1] == "2.50"
    assert rows["local, cpu"][-1] == "nothing rented"
    assert rows["together"][:4] == [str(len(records)), str(len(records)), "2", f"{len(records)}.00"]
    assert rows["together"][-1] == "2.50"


def _trunk_of_two_bases(archive: Archive, folder: Path) -> list[dict[str, Any]]:
    """Two cells whose weights went on from one milestone, which took an hour."""
    trunk = core.body("trunks", "n0-s0/79872", of="trunk") | {"stage": "trunk", "parents": {}}
    trunk |= {"links": [{"attempt": "t1", "wall_s": 3600.0, "cpu_s": 3600.0}]}
    trunk |= {"platform": {"name": "local", "device": "cpu"}}
    core.put(archive, folder, trunk)
    cells = []
    for base in ("n0-t100k-s0", "n0-t200k-s0"):
        weights = core.body("weights", f"{base}/none", of=base) | {"stage": "cooldown"}
        weights |= {"parents": {"milestone": core.key_of(trunk)}}
        core.put(archive, folder, weights)
        parents = {"weights": core.key_of(weights)}
        cells.append({"weights": {"stage": "cooldown"}, "parents": parents})
    return cells


def test_trunk_is_found_once_and_counted_beside_the_cells_that_share_it(tmp_path: Path) -> None:
    """Its hour is on the page, and it is no cell."""
    archive = core.archive_in(tmp_path)
    cells = _trunk_of_two_bases(archive, tmp_path / "out")

    shared = trunks.find(archive, cells)

    assert shared is not None
    assert [record["cell"] for record in shared] == ["n0-s0/79872"]
    known = demo_records(seeds=1)
    (row,) = _rows(known | {"a trunk": shared[0]})
    assert row[1:3] == [str(len(known)), "2"]
    assert row[4] == "1.00"


def test_trunks_are_unknown_when_the_archive_is_damaged(tmp_path: Path) -> None:
    """The page then says that they are not in its sum."""
    archive = core.archive_in(tmp_path)
    cells = _trunk_of_two_bases(archive, tmp_path / "out")
    (tmp_path / "archive" / cells[0]["parents"]["weights"]).write_text("{}")

    assert trunks.find(archive, cells) is None
