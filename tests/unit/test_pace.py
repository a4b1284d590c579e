"""What keeps Snakemake's own cost low, and changes nothing else."""

import gc
import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Facts
from typing import Any

import pytest
import yaml
import yte
from snakemake import api  # noqa: F401 - brings the rest in the one order that works
from snakemake.common import FUNC_OVERWRITE_PARAMS_ATTR, get_function_params
from snakemake.dag import DAG
from snakemake.exceptions import WildcardError
from snakemake.jobs import Job
from snakemake.sourcecache import LocalSourceFile, SourceCache

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


def test_snakefile_is_read_as_ever_when_smart_open_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of this disk have the same text; what is elsewhere or cannot be read is Snakemake's."""
    of_snakemake = getattr(SourceCache.open, "of_snakemake", SourceCache.open)
    asked: list[str] = []

    def told(self: SourceCache, source_file: Any, mode: str = "r") -> Any:
        asked.append(source_file.get_path_or_uri(secret_free=True))
        return of_snakemake(self, source_file, mode)

    monkeypatch.setattr(SourceCache, pace.OPENED_BY, told)
    cache = SourceCache(tmp_path / "cache")
    own, other, missing = (str(tmp_path / name) for name in ("Snakefile", "rules.txt", "none.smk"))
    Path(own).write_text("rule \N{GREEK SMALL LETTER ALPHA}:\r\n")
    Path(other).write_text("rule b:")

    pace.open_own_files_plainly()
    pace.open_own_files_plainly()  # once is enough

    with cache.open(LocalSourceFile(own)) as ours, told(cache, LocalSourceFile(own)) as theirs:
        assert ours.read() == theirs.read()
    assert asked == [own]
    with cache.open(LocalSourceFile(other)) as file:
        assert file.read() == "rule b:"
    with pytest.raises(FileNotFoundError):
        cache.open(LocalSourceFile(missing))
    assert asked == [own, other, missing]


OF_THE_GRAPH = [(DAG, "check_directory_outputs"), (DAG, "update_conda_envs"), (Job, "is_valid")]


@pytest.fixture
def spared(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Methods that are asked for each job, replaced; what was called of Snakemake's own ones."""
    called: list[object] = []
    for owner, name in OF_THE_GRAPH:
        told = partial(lambda name, of: called.append((name, of)), name)
        monkeypatch.setattr(owner, name, lambda of, told=told: told(of))
    pace.spare_the_graph()
    pace.spare_the_graph()  # once is enough
    return called


@pytest.mark.parametrize(
    ("outputs", "is_told"),
    [
        (["a/b", "a/bc", "a.b/c", "/a"], False),
        (["a/b", "a/b/c/d"], True),
        (["./a//b", "a/b/c"], True),
        (["a/b", "a/b"], False),
    ],
)
def test_outputs_within_outputs_are_told_by_snakemake(
    spared: list[object], outputs: list[str], is_told: bool
) -> None:
    """Whatever it would refuse comes before it; a thousand files beside each other do not."""
    dag = Facts(jobs=[Facts(output=[file]) for file in outputs])

    DAG.check_directory_outputs(dag)

    assert spared == ([("check_directory_outputs", dag)] if is_told else [])


def test_environments_are_snakemakes_when_a_rule_has_one(spared: list[object]) -> None:
    """And where a rule does not tell, as in another version."""
    bare, conda, unknown = (
        Facts(rules=rules) for rules in ([Facts(conda_env=None)], [Facts(conda_env="x")], [Facts()])
    )

    for dag in (bare, conda, unknown):
        DAG.update_conda_envs(dag)

    assert spared == [("update_conda_envs", conda), ("update_conda_envs", unknown)]


def test_log_of_a_job_that_cannot_be_named_is_an_error_as_ever(spared: list[object]) -> None:
    """What naming it raises comes through, and names are asked for where a job keeps them."""

    class Named:
        benchmark = None

        @property
        def log(self) -> list[str]:
            raise WildcardError("log")

    with pytest.raises(WildcardError):
        Job.is_valid(Named())
    Job.is_valid(other := Facts(log=[]))
    assert spared == [("is_valid", other)]
    assert all(isinstance(vars(Job)[name], property) for name in ("log", "benchmark"))


def test_yaml_is_read_alike_when_read_in_c(root: Path) -> None:
    """Every schema is the same data, and afterwards everything is as it was."""
    for schema in sorted((root / "config/schemas").glob("*.yaml")):
        text, before = schema.read_text(), yaml.FullLoader
        expected = yte.process_yaml(text, require_use_yte=True)
        with pace.yaml_in_c():
            assert yaml.FullLoader is not before
            assert yte.process_yaml(text, require_use_yte=True) == expected
        assert yaml.FullLoader is before
