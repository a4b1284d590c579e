"""What keeps Snakemake's own cost low, and changes nothing else."""

import gc
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from snakemake.common import FUNC_OVERWRITE_PARAMS_ATTR, get_function_params

from quantgrid import pace
from quantgrid.workflow import Workflow

ASKED = {
    name: method
    for name, method in vars(Workflow).items()
    if hasattr(method, pace.KNOWN_PARAMETERS)
}


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    """The thresholds of the garbage collector, restored afterwards."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_snakemake_finds_the_parameters_when_it_asks_a_marked_method() -> None:
    """It takes those that were read once, of the method as it is bound, and reads no signature."""

    class Rules:
        @pace.asked
        def files(self, wildcards: str, attempt: int) -> None: ...

    seen = get_function_params(Rules().files)

    assert pace.KNOWN_PARAMETERS == FUNC_OVERWRITE_PARAMS_ATTR
    assert seen is get_function_params(Rules().files)
    assert dict(seen) == dict(inspect.signature(Rules().files).parameters)


def test_jobs_ask_marked_methods_only_when_planned(root: Path) -> None:
    """Each method that the rules of cells name is marked, and none of them by mistake."""
    text = "".join((root / f"rules/{name}.smk").read_text() for name in ("cells", "archive"))

    assert {name for name in vars(Workflow) if f"plan.{name},\n" in text} == set(ASKED)


def test_garbage_is_looked_for_rarely_when_told(thresholds: tuple[int, int, int]) -> None:
    """The thresholds are far above Python's own, and the collector stays on."""
    pace.collect_rarely()

    assert gc.isenabled()
    assert gc.get_threshold()[0] > 50 * thresholds[0]
