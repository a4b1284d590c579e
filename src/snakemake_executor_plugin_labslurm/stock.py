"""The SLURM plugin that ours derives from, loaded without pandas until somebody wants its report.

snakemake-executor-plugin-slurm 2.8 imports pandas for a report that few ask for, and Snakemake
imports every plugin at every start (bench/plan.py).  While it is loaded here, a stand-in answers
for pandas; its first use loads the real one.
Where Snakemake finds that plugin before ours, the same happens, later; `.ci/ours-first` sees to it
that ours comes first in the environment that `make` makes.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_HEAVY = "pandas"


class _Later(ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import machinery looks at these
            raise AttributeError(name)
        _take_away(self)
        return getattr(importlib.import_module(self.__name__), name)


def _take_away(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]


def _load() -> ModuleType:
    stand_in = _Later(_HEAVY)
    sys.modules.setdefault(_HEAVY, stand_in)
    try:
        return importlib.import_module("snakemake_executor_plugin_slurm")
    finally:
        _take_away(stand_in)


plugin = _load()
minutes_of = importlib.import_module(f"{plugin.__name__}.utils").parse_time_to_minutes
