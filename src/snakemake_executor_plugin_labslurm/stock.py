"""The SLURM plugin that ours derives from, without pandas and NumPy until its report needs them.

snakemake-executor-plugin-slurm 2.8 imports them for a report that few ask for, and Snakemake
imports every plugin at every start (bench/plan.py).  While it is loaded here, stand-ins answer for
them; the first use of one loads the real one.
Where Snakemake finds that plugin before ours, the same happens, later; `.ci/ours-first` sees to it
that ours comes first in the environment that `make` makes.
"""

import importlib
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

_HEAVY = ("pandas", "numpy")
_TEMPLATES = "yte"
"""Imported by Snakemake itself a little later, with NumPy where it is, to know its texts apart."""


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
    stand_ins = [_Later(name) for name in _HEAVY]
    for stand_in in stand_ins:
        sys.modules.setdefault(stand_in.__name__, stand_in)
    try:
        with suppress(ImportError):
            importlib.import_module(_TEMPLATES)
        return importlib.import_module("snakemake_executor_plugin_slurm")
    finally:
        for stand_in in stand_ins:
            _take_away(stand_in)


plugin = _load()
minutes_of = importlib.import_module(f"{plugin.__name__}.utils").parse_time_to_minutes
