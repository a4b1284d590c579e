"""Snakemake's executor `runpod`: jobs on pods of RunPod, through REST v2.

What a job may say beside `runtime` and `max_usd`: `gpu` (how many), `gpu_model` (the platform's
name of it; `A|B` names two that will do), `cloud` (SECURE or COMMUNITY), `disk_gb`.
The key is read from RUNPOD_API_KEY when the first job is ready, so planning needs none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgrid.rental.executor import RentedExecutor, RentedSettings, common_settings

if TYPE_CHECKING:
    from quantgrid.rental.facts import Facts
    from quantgrid.rental.port import Platform

__all__ = ["Executor", "ExecutorSettings", "common_settings", "connect"]


@dataclass
class ExecutorSettings(RentedSettings):
    """Options on the command line; what belongs to the account is in config/platforms."""


class Executor(RentedExecutor):
    """Runs jobs on pods."""


def connect(facts: "Facts", environ: Mapping[str, str]) -> "Platform":
    """RunPod as the facts and an environment reach it."""
    from quantgrid.rental.runpod import connected

    return connected(facts, environ)
