"""What the file of a platform says of its rented machines: data for adapters and controllers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.settings import Platform


class Facts(NamedTuple):
    """The section `rented` of `config/platforms/<name>.yaml`; times in seconds of its clock.

    Args:
        name: Name of the platform.
        adapter: Which plugin package reaches it: `snakemake_executor_plugin_<adapter>`.
        account: Who pays: any other account is refused before a create.
        image: Container image, by digest.
        id_variable: The variable in which a machine finds the platform's id of itself.
        ends_by: How a machine ends itself, as `module:function`; empty where a return ends it.
        python: The interpreter of the image.
        mount: Where the volume is mounted.
        volume: Id of the volume; empty for none.
        volumes: Further ones, region to id: a machine in such a region is given that one.
        device: The platform's name of the accelerator; empty for none.
        num_devices: How many of them.
        secrets: Names of secrets that the platform itself puts into the environment.
        run_s: How long one machine should compute at most.
        idle_s: How long a machine waits for the next task of its kind.
        machines: How many machines of one kind there are at most at a time.
        ahead: How many tasks are given to a machine before it ends the first of them.
        max_links: Machines in a row that may reach their cap for one lease.
        shares_disk: Whether its machines see the folders of this machine, as in rehearsals.
        clock_factor: How much faster than a clock the platform runs, for rehearsals.
        coordinator: Device and further secrets of a machine that only runs the controller.
        cap_s: The longest life of a machine; None where the adapter knows it.
        grace_s: From the signal to the kill.
        options: What only its adapter knows.
    """

    name: str
    adapter: str
    account: str
    image: str
    id_variable: str
    ends_by: str = ""
    python: str = "python"
    mount: str = "/volume"
    volume: str = ""
    volumes: Mapping[str, str] = {}
    device: str = ""
    num_devices: int = 0
    secrets: tuple[str, ...] = ()
    run_s: float = 86_400.0
    idle_s: float = 120.0
    machines: int = 8
    ahead: int = 2
    max_links: int = 10
    shares_disk: bool = False
    coordinator: Mapping[str, Any] = {}
    clock_factor: float = 1.0
    cap_s: float | None = None
    grace_s: float = 30.0
    options: Mapping[str, Any] = {}

    def volume_in(self, region: str) -> str:
        """Id of the volume that a machine in a region is given."""
        return self.volumes.get(region, self.volume)

    def real_s(self, nominal_s: float) -> float:
        """Seconds of the store's clock for seconds of the platform's."""
        return nominal_s / self.clock_factor


def facts_of(platform: Platform) -> Facts:
    """The facts of a platform.

    Raises:
        ConfigRefusal: when it rents nothing.
    """
    if platform.rented is None:
        raise ConfigRefusal(
            f"platform {platform.name} rents no machines",
            expected="a section `rented` in its file",
            where=layout.section_file(Path(), "platform", platform.name),
            do="Choose another platform, or describe its machines there.",
        )
    section = {**platform.rented, "secrets": tuple(platform.rented.get("secrets", ()))}
    return Facts(
        name=platform.name,
        clock_factor=platform.clock_factor,
        cap_s=platform.cap_s,
        grace_s=platform.grace_s,
        **section,
    )
