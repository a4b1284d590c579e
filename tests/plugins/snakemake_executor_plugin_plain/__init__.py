"""`snakemake --executor plain`: jobs on machines of the rehearsal's plain platform."""

from collections.abc import Mapping
from dataclasses import dataclass

from quantgrid.rental.executor import RentedExecutor, RentedSettings, common_settings
from quantgrid.rental.facts import Facts
from quantgrid.rental.port import Platform

__all__ = ["Executor", "ExecutorSettings", "common_settings", "connect"]


@dataclass
class ExecutorSettings(RentedSettings):
    """What every rented platform offers."""


class Executor(RentedExecutor):
    """Runs jobs there."""


def connect(facts: Facts, environ: Mapping[str, str]) -> Platform:
    """A client of the double; address and key come from the environment."""
    from rehearsal.plain.platform import PlainPlatform

    return PlainPlatform(
        environ["PLAIN_URL"],
        environ.get("PLAIN_MAIN") or environ["PLAIN_TOKEN"],  # a machine's own key rents nothing
        factor=facts.clock_factor,
        limits=facts.options["limits"],
    )
