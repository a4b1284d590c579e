"""How a platform is reached from here, and what must be reachable from its machines."""

import os
from collections.abc import Mapping
from importlib import import_module

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.facts import Facts
from quantgrid.rental.port import Platform

_PACKAGE = "snakemake_executor_plugin_"


def connect(facts: Facts, environ: Mapping[str, str] = os.environ) -> Platform:
    """The platform that the facts name, through its plugin package.

    Raises:
        ConfigRefusal: when no package reaches it.
    """
    try:
        package = import_module(f"{_PACKAGE}{facts.adapter}")
    except ModuleNotFoundError as error:
        raise ConfigRefusal(
            f"nothing here reaches platform {facts.name}",
            expected=f"a package {_PACKAGE}{facts.adapter}",
            seen=str(error),
            do="Install it, or choose another platform.",
        ) from error
    platform: Platform = package.connect(facts, environ)
    return platform


def refuse_unreachable(facts: Facts, archive: str) -> None:
    """Refuse an archive that no machine could deposit into, before any is rented.

    Args:
        facts: Of the platform.
        archive: The address of the archive, as the settings have it.

    Raises:
        ConfigRefusal: for a folder of this machine, or a bucket at an address of this machine.
    """
    local = ("//127.", "//localhost", "//[::1]")
    is_here = "://" not in archive or any(each in archive for each in local)
    if is_here and not facts.shares_disk:
        raise ConfigRefusal(
            f"machines of {facts.name} cannot reach this archive, so nothing was planned",
            expected="a bucket that is reached from everywhere: s3://bucket/prefix",
            seen=archive,
            where="`archive` and `endpoint_url` of the configuration",
            do="`quantgrid archive copy` brings a folder's records into a bucket.",
        )
