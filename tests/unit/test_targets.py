"""What a call of Snakemake is for, and what of it may be left out because the plan has seen it."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace as Facts
from typing import Any

import pytest
from snakemake.settings.types import DAGSettings, RerunTrigger

from quantgrid import layout
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.plan import Plan
from quantgrid.targets import Targets, may_leave_out, result
from quantgrid.verdicts import UNJUDGED

PROJECT = Path(__file__).parents[2]
GRID = "smoke"
PROFILE = frozenset({RerunTrigger.MTIME, RerunTrigger.PARAMS})


def call(*, touch: bool = False, executor: object = "dryrun", **options: Any) -> Facts:
    """What Snakemake knows of a call; its settings are its own, with its own names."""
    settings = DAGSettings(**{"rerun_triggers": PROFILE, **options})
    return Facts(
        dag_settings=settings,
        rerun_triggers=settings.rerun_triggers,
        executor_plugin=executor,
        touch=touch,
    )


def test_current_results_may_be_left_out_when_a_call_plans_or_runs() -> None:
    """The call of the profiles."""
    assert may_leave_out(call())


@pytest.mark.parametrize(
    "other",
    [
        {"executor": None},
        {"touch": True},
        {"forceall": True},
        {"forcetargets": True},
        {"forcerun": frozenset({"fold"})},
        {"until": frozenset({"table"})},
        {"omit_from": frozenset({"table"})},
        {"batch": object()},
        {"rerun_triggers": PROFILE | {RerunTrigger.CODE}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_nothing_is_left_out_when_a_call_wants_every_job(other: dict[str, Any]) -> None:
    """Pictures and summaries have no executor; the rest is asked for by name."""
    assert not may_leave_out(call(**other))


@pytest.fixture(scope="module")
def lineage() -> Lineage:
    """The small grid of 14 cells."""
    return trace(load_grid(PROJECT, GRID), Science(PROJECT))


def of(here: Path, lineage: Lineage, *, missing: int = 0, **facts: Any) -> Targets:
    """What a call is for, when the last cells have no result yet."""
    every = lineage.grid.every
    known = every[: len(every) - missing]
    local = {cell.id: lineage.cells[cell.id].fingerprint for cell in known}
    plan = Plan(lineage, frozenset(), local, tuple(every))
    facts = {"dryrun": True, **vars(call()), **facts}
    return Targets(here, GRID, lineage, plan, Facts(**facts), lambda path: f"ancient {path}")


def show(here: Path, shown: Mapping[str, str]) -> None:
    """A table of these cells, none of which was judged."""
    table = here / layout.TABLE.format(grid=GRID)
    table.parent.mkdir(parents=True)
    rows = [f"{cell},{seen},{UNJUDGED}\n" for cell, seen in shown.items()]
    table.write_text("".join(["cell,fingerprint,verdict\n", *rows]))


def test_no_result_is_looked_at_when_the_table_shows_all(tmp_path: Path, lineage: Lineage) -> None:
    """In a run as in a dry run; table and page are looked at."""
    show(tmp_path, of(tmp_path, lineage).fingerprints)

    for is_dry in (True, False):
        targets = of(tmp_path, lineage, dryrun=is_dry)
        assert targets.table_cells() == []
        assert targets.asked() == [f"results/{GRID}.csv", f"results/{GRID}.html"]


def test_every_result_is_looked_at_when_the_table_shows_others(
    tmp_path: Path, lineage: Lineage
) -> None:
    """It may be older than any of them, so their times count."""
    show(tmp_path, dict.fromkeys(of(tmp_path, lineage).fingerprints, "0" * 64))
    targets = of(tmp_path, lineage)

    assert len(targets.table_cells()) == len(lineage.grid.every)
    assert len(targets.asked()) == len(lineage.grid.every) + 2


def test_results_are_named_once_when_there_is_no_table(tmp_path: Path, lineage: Lineage) -> None:
    """By the table that is to be made; of a dry run only those that are missing."""
    dry = of(tmp_path, lineage, missing=3)
    real = of(tmp_path, lineage, missing=3, dryrun=False)

    assert dry.table_cells() == [result(cell) for cell in lineage.grid.every[-3:]]
    assert real.table_cells() == [result(cell) for cell in lineage.grid.every]
    assert dry.asked() == real.asked() == [f"results/{GRID}.csv", f"results/{GRID}.html"]


def test_every_result_is_named_when_a_picture_is_drawn(tmp_path: Path, lineage: Lineage) -> None:
    """A picture of a grid shows what it is for."""
    targets = of(tmp_path, lineage, executor_plugin=None)

    assert len(targets.asked()) == len(targets.table_cells()) + 2 == len(lineage.grid.every) + 2


def test_missing_results_are_named_when_a_table_is_there(tmp_path: Path, lineage: Lineage) -> None:
    """A table that Snakemake takes for current brings none of them back."""
    show(tmp_path, of(tmp_path, lineage).fingerprints)
    targets = of(tmp_path, lineage, missing=2)

    assert targets.asked()[:-2] == [result(cell) for cell in lineage.grid.every[-2:]]
