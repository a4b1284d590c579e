"""Longer than a sandbox may live, and several controllers: `--profile modal` at its limits."""

import json
import subprocess
from pathlib import Path

import pytest
from test_modal_grid import environment_of, lay_rented, rehearse, typed

import modal_parts as parts
from working_copy import CELLS, WorkingCopy, lay

ONE_TRUNK = """
corpus: shakespeare
evaluation: {sequences: 16}
blocks:
  main:
    models: [n0]
    tokens: [20_000]
    seeds: [0]
    forms: [{method: none}, {method: rtn, bits: 4, group: row, scale: noclip}]
"""
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
        (copy / "config/grids/trunk.yaml").write_text(ONE_TRUNK)
        copy.edit("config/config.yaml", "grid: smoke", "grid: trunk")

        done = typed(copy, environment_of(copy, double), timeout_s=800)

        assert done.returncode == 0, done.stdout[-6000:]
        (path,) = (copy / "archive/trunks").glob("*/*/*/record.json")
        links = json.loads(path.read_bytes())["links"]
        assert len(links) >= DAYS + 1
        assert [link["end"] for link in links[:-1]] == ["cap"] * (len(links) - 1)
        assert {box["timeout_s"] for box in double.boxes()} <= set(range(86_401))
        assert double.living() == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_cell_is_computed_once_when_two_platforms_share_an_archive(tmp_path: Path) -> None:
    """A desk and Modal at the same time, one grid, one archive: one record of each cell."""
    with parts.doubled(tmp_path / "modal", 30.0) as double:
        archive = tmp_path / "archive"
        rented, desk = lay_rented(tmp_path / "rented", double), lay(tmp_path / "desk", light=True)
        for copy in (rented, desk):
            copy.edit("config/config.yaml", "archive: archive", f"archive: {archive}")
        command = ["snakemake", "--profile", "modal"]
        environment = rehearse(rented, environment_of(rented, double))
        with (tmp_path / "rented.log").open("w") as log:
            there = subprocess.Popen(
                command, cwd=rented.root, env=environment, stdout=log, stderr=log
            )
            try:
                desk.snakemake(code=None, timeout_s=400)
                there.wait(400)
            finally:
                there.kill()
                there.wait(60)

        assert typed(rented, environment, timeout_s=400).returncode == 0
        desk.snakemake()
        found = _records(archive)
        assert len(found) == CELLS
        assert set(found.values()) == {1}
        assert _platforms(desk) == _platforms(rented)
        assert len(set(_platforms(desk).values())) == 2, "one of them did all: nothing was shown"
        assert double.living() == []


def _records(archive: Path) -> dict[str, int]:
    """How many records each cell has."""
    counts: dict[str, int] = {}
    for path in (archive / "cells").glob("*/*/*/*.json"):
        cell = str(path.relative_to(archive / "cells").parent.parent)
        counts[cell] = counts.get(cell, 0) + 1
    return counts


def _platforms(copy: WorkingCopy) -> dict[str, str]:
    """Where each cell of a working copy was computed."""
    paths = sorted((copy / "results").rglob("result.json"))
    records = [json.loads(path.read_text()) for path in paths]
    return {record["cell"]: record["platform"]["name"] for record in records}
