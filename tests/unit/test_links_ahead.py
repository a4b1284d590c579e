"""A plan under a cap says how many links are still to come, where something tells it."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.links_ahead import link_s, sentence
from quantgrid.load import Platform, load_grid
from quantgrid.plan import Plan

HOUR = Platform(name="p", device="cpu", threads=1, cap_s=3600, grace_s=60)


@pytest.fixture(scope="module")
def plan(root: Path) -> Plan:
    """The smoke grid, of which nothing is made yet: two trunks."""
    lineage: Lineage = trace(load_grid(root, "smoke"), Science(root))
    return Plan(lineage, frozenset(), {}, lineage.grid.cells)


def begin(plan: Plan, volume: Path, tokens: int, wall_s: float) -> None:
    """One link of the longest trunk."""
    key = max(plan.lineage.milestones, key=lambda each: each[1])
    stage = plan.lineage.milestones[key]
    owner = layout.owner_of(stage.record)
    state = layout.state_folder(volume, owner, stage.name, stage.fingerprint)
    path = layout.links_file(state)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([{"tokens": tokens, "wall_s": wall_s, "end": "cap"}]))


def test_links_are_told_when_a_trunk_was_begun(plan: Plan, tmp_path: Path) -> None:
    """At a token a second and 3,430 s a link, 32,768 tokens less 3,400 are nine links."""
    begin(plan, tmp_path, 3400, 3400.0)

    said = sentence(plan, tmp_path, HOUR)

    seconds = link_s(HOUR)
    assert seconds is not None
    assert 3400 < seconds < 3600 - 60
    assert said.startswith(f"links: 9 more of up to {seconds:.0f} s each for 1 begun trunk")
    assert said.endswith("; no speed is told yet of 1 more trunk")


def test_nothing_is_told_when_nothing_is_known(plan: Plan, tmp_path: Path) -> None:
    """No trunk was begun, no cap ends a link, or all trunks are archived: no line at all."""
    assert sentence(plan, tmp_path, HOUR) == ""
    begin(plan, tmp_path, 3400, 3400.0)
    records = frozenset(stage.record for stage in plan.lineage.milestones.values())
    assert sentence(replace(plan, index=records), tmp_path, HOUR) == ""
    assert sentence(plan, tmp_path, replace(HOUR, cap_s=None)) == ""


def test_link_is_shorter_when_the_platform_told_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller inside an allocation knows when that ends."""
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 600))
    seconds = link_s(HOUR)
    assert seconds is not None
    assert seconds < 600 - 60
