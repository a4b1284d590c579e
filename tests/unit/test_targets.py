"""Which calls of Snakemake may leave out what the plan has seen to be current."""

from types import SimpleNamespace as Facts
from typing import Any

import pytest
from snakemake.settings.types import DAGSettings, RerunTrigger

from quantgrid.targets import may_leave_out

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
