"""What keeps the cost of Snakemake itself low; without any of it the same happens, later.

Shares are of the CPU time of a dry run of a thousand cells (bench/plan.py).
"""

import gc
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from quantgrid import layout

Method = TypeVar("Method", bound=Callable[..., object])

KNOWN_PARAMETERS = "_overwrite_params"
"""Where Snakemake 9 looks before it reads a signature (snakemake.common.get_function_params)."""

SERIALIZED, PLAINLY = "_serialize_param", "_serialize_param_builtin"
"""How Snakemake 9 makes texts of params (snakemake.persistence), with pandas and without."""

SOURCES, OPENED_BY = "snakemake.sourcecache", "open"
"""Where Snakemake 9 opens a Snakefile, and the method of its SourceCache that does."""

OF_SNAKEMAKE = "of_snakemake"
"""Where a method that stands for one of Snakemake's keeps that one."""

_NEW_OBJECTS = (100_000, 50, 100)


def asked(method: Method) -> Method:
    """Mark a method that rules ask for each job, so that its signature is read once.

    Snakemake reads it three times at every call, which took a twentieth of a plan.
    """
    parameters = dict(list(inspect.signature(method).parameters.items())[1:])  # bound: no `self`
    setattr(method, KNOWN_PARAMETERS, parameters)
    return method


def collect_rarely() -> None:
    """Let Python look for garbage after a hundred thousand new objects, and not after 700.

    The objects of a plan live to its end: looking through them again and again took a tenth of a
    plan and made it grow faster than its grid, and memory was the same.
    """
    gc.set_threshold(*_NEW_OBJECTS)


def compare_params_as_texts() -> None:
    """Let Snakemake ask of no param whether it is a frame of pandas; ours are all texts.

    Wherever pandas is installed it is imported for that, in every call that runs a job or finds an
    output: .3 s of CPU and 60 MB.  What is compared and kept is the same.
    """
    kind = getattr(sys.modules.get("snakemake.persistence"), "PersistenceBase", None)
    if hasattr(kind, SERIALIZED) and hasattr(kind, PLAINLY):
        setattr(kind, SERIALIZED, getattr(kind, PLAINLY))


def open_own_files_plainly() -> None:
    """Let Snakemake read a Snakefile of this disk without smart_open.

    That brings boto3 and requests, to know the addresses of all clouds: a tenth of a start.  Every
    other file is still opened by it, and so is one that cannot be read, for it says so well.
    """
    local = getattr(sys.modules.get(SOURCES), "LocalSourceFile", None)

    def instead(before: Callable[..., Any]) -> Callable[..., Any]:
        def opened(self: Any, source: Any, mode: str = "r") -> Any:
            path = source.get_path_or_uri(secret_free=False) if type(source) is local else ""
            if mode == "r" and Path(path).suffix in layout.RULES_END and Path(path).is_file():
                return Path(path).open(encoding="utf-8")
            return before(self, source, mode)

        return opened

    _replace(SOURCES, "SourceCache", OPENED_BY, instead)


def spare_the_graph() -> None:
    """Let Snakemake not ask of each job what is the same for all of them: a sixth of a graph."""
    _replace("snakemake.dag", "DAG", "check_directory_outputs", _where_outputs_are_nested)
    _replace("snakemake.dag", "DAG", "update_conda_envs", _where_a_rule_has_one)
    _replace("snakemake.jobs", "Job", "is_valid", _by_what_it_keeps)


def _where_outputs_are_nested(before: Callable[..., Any]) -> Callable[..., Any]:
    """An output within another one is an error: looked for by name, and told by Snakemake."""

    def check(dag: Any) -> None:
        outputs = {os.path.abspath(file) for job in dag.jobs for file in job.output}  # noqa: PTH100
        folders: set[str] = set()
        for output in outputs:
            above = output.rpartition("/")[0]
            while above not in folders:
                folders.add(above)
                above = above.rpartition("/")[0]
        if not outputs.isdisjoint(folders):
            before(dag)

    return check


def _where_a_rule_has_one(before: Callable[..., Any]) -> Callable[..., Any]:
    """To know the environment of a job, Snakemake evaluates its params, also where it has none."""

    def update(dag: Any) -> None:
        if any(getattr(rule, "conda_env", True) is not None for rule in dag.rules):
            before(dag)

    return update


def _by_what_it_keeps(before: Callable[..., Any]) -> Callable[..., Any]:
    """Whether log and benchmark of a job can be named: the names that it keeps are made once."""

    def is_valid(job: Any) -> None:
        if not (hasattr(job, "log") and hasattr(job, "benchmark")):
            before(job)

    return is_valid


def _replace(
    module: str, kind: str, name: str, instead: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Put a method in the place of one of Snakemake's, once, where there is such a one."""
    owner = getattr(sys.modules.get(module), kind, None)
    before = getattr(owner, name, None)
    if callable(before) and not hasattr(before, OF_SNAKEMAKE):
        method = instead(before)
        setattr(method, OF_SNAKEMAKE, before)
        setattr(owner, name, method)


@contextmanager
def yaml_in_c() -> Iterator[None]:
    """Meanwhile PyYAML reads by its parser in C, where it has one: the same data, ten times faster.

    Snakemake reads the schema at each of nine validations, by the one in Python.
    """
    yaml = sys.modules.get("yaml")
    in_python, in_c = (getattr(yaml, name, None) for name in ("FullLoader", "CFullLoader"))
    if yaml is None or in_python is None or in_c is None:
        yield
        return
    setattr(yaml, "FullLoader", in_c)  # noqa: B010 - untyped on purpose
    try:
        yield
    finally:
        setattr(yaml, "FullLoader", in_python)  # noqa: B010


def look_only_when_needed(scheduler: Any) -> None:
    """Let Snakemake look for jobs when one ends, and not every second after each look as well.

    Under a limit of jobs a second, which no option takes away, Snakemake 9 starts a timer at each
    look, and each timer ends in another look: N jobs later it looks N times a second.  64 cells
    took 1,787 looks and 7.4 s of CPU, and take 128 and 2.8 s without the limit (bench/overhead.py).
    """
    scheduler.job_rate_limiter = None
