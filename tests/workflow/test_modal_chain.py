"""Longer than a sandbox may live: `--profile modal` at the cap of its platform."""

import json
from pathlib import Path

import pytest

import modal_parts as parts
from modal_copy import environment_of, lay_rented, typed
from working_copy import NONE, RTN, grid_file

DAY_S = 14
"""Seconds that stand for a day of Modal."""
DAYS = 6


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_trunk_of_six_days_ends_though_no_sandbox_lives_longer_than_one(tmp_path: Path) -> None:
    """Each create asks for 24 hours at most; links follow by themselves, to one result."""
    with parts.doubled(tmp_path / "modal", 86_400 / DAY_S) as double:
        work = {"LIGHT_WORK_S": str(DAYS * DAY_S)}
        double.put("secrets", {"lab/main/work": work})
        copy = lay_rented(tmp_path / "rented", double, secrets=["work"])
        (copy / "config/grids/trunk.yaml").write_text(grid_file(NONE, RTN))
        copy.edit("config/config.yaml", "grid: smoke", "grid: trunk")

        done = typed(copy, environment_of(copy, double), timeout_s=800)

        assert done.returncode == 0, done.stdout[-6000:]
        (path,) = (copy / "archive/trunks").glob("*/*/*/record.json")
        links = json.loads(path.read_bytes())["links"]
        assert len(links) >= DAYS + 1
        assert [link["end"] for link in links[:-1]] == ["cap"] * (len(links) - 1)
        assert {box["timeout_s"] for box in double.boxes()} <= set(range(86_401))
        assert double.living() == []
