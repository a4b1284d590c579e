"""`--executor modal`: jobs in sandboxes of Modal; what it does is in `quantgrid.rental`.

Snakemake imports this at every start, so the SDK is loaded only when something is to be rented.
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
    """Those of every rented platform; what is Modal's own is in `config/platforms/modal.yaml`."""


class Executor(RentedExecutor):
    """Runs jobs in sandboxes."""


def connect(facts: "Facts", environ: Mapping[str, str]) -> "Platform":  # noqa: ARG001 - the SDK reads it
    """The adapter for the account of the SDK's own configuration, if it is the pinned one.

    Raises:
        VolumeRefusal: for another workspace, environment or volume, with both identities.
        ConfigRefusal: for an option that nobody knows, or an SDK that nobody tried.
        CallFault: for a token that is refused.
    """
    from quantgrid.rental.errors import CallFault, Trouble
    from quantgrid.rental.modal.declared import declared

    platform = declared(facts)
    try:
        platform.refuse_other(facts.account, facts.volume)
    except CallFault as fault:  # silent for a moment: every round asks again before it creates
        if fault.trouble is Trouble.ACCOUNT:
            raise
    return platform
