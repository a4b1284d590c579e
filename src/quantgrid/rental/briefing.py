"""What a machine is told at its start, as names and values of its environment.

Whoever lists the machines of an account may read them, so no secret is among them: secrets come
from the platform's own store of secrets, by their names in the order.
"""

from collections.abc import Mapping
from typing import NamedTuple

from quantgrid.errors import ConfigRefusal

PREFIX = "QG_LEASE_"
COMMAND = ("python", "-m", "quantgrid", "supervise")
"""The first process of every machine; a platform's file may replace the first word."""


class Briefing(NamedTuple):
    """What the first process in a machine has to know.

    Seconds are nominal: those of the platform's file, divided by the clock factor when used.

    Args:
        store: Address of the store that the lease is written down in.
        subject: What the lease is for; names its queue.
        nonce: Of this machine.
        deadline: When it ends itself, by the store's clock: Unix seconds, real ones.
        platform: Name of the platform, for a person.
        id_variable: Name of the variable that the platform sets to the machine's id.
        ends_by: `module:function` that makes the port of the platform from the environment, to end
            this machine with; empty where a first process that returns ends it.
        mount: Folder of the volume; empty for none.
        work: Private folder for working copies.
        gpus: How many there must be.
        beat_s: Between two signs of life.
        stall_s: Without any progress of a task for this long, the machine ends.
        idle_s: Without a further task for this long, it ends.
        grace_s: Between SIGTERM and SIGKILL.
        clock_factor: How much faster time goes than on a real platform.
    """

    store: str
    subject: str
    nonce: str
    deadline: float
    platform: str
    id_variable: str
    ends_by: str = ""
    mount: str = ""
    work: str = "."
    gpus: int = 0
    beat_s: float = 60.0
    stall_s: float = 900.0
    idle_s: float = 120.0
    grace_s: float = 30.0
    clock_factor: float = 1.0

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Names and values, as an order of the port carries them."""
        values = {name: _said(value) for name, value in self._asdict().items()}
        return tuple((f"{PREFIX}{name.upper()}", value) for name, value in values.items())

    @classmethod
    def parse(cls, environment: Mapping[str, str]) -> "Briefing":
        """Read what a machine was told.

        Raises:
            ConfigRefusal: when something is missing or no number.
        """
        told = {
            name: environment[key]
            for name in cls._fields
            if (key := f"{PREFIX}{name.upper()}") in environment
        }
        missing = [name for name in cls._fields if name not in told | cls._field_defaults]
        try:
            values = {name: _KINDS.get(name, str)(value) for name, value in told.items()}
        except ValueError as error:
            raise _unfit(str(error)) from error
        if missing:
            raise _unfit(f"nothing for {', '.join(f'{PREFIX}{name.upper()}' for name in missing)}")
        return cls(**values)

    def real(self, seconds: float) -> float:
        """Nominal seconds as seconds of this machine's clock."""
        return seconds / self.clock_factor


_KINDS: Mapping[str, type] = {"gpus": int} | dict.fromkeys(
    ("deadline", "beat_s", "stall_s", "idle_s", "grace_s", "clock_factor"), float
)


def _said(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _unfit(seen: str) -> ConfigRefusal:
    return ConfigRefusal(
        "this process was not started as the first one of a rented machine",
        expected=f"the variables {PREFIX}... of docs/formats/rental.md",
        seen=seen,
        do="Machines are started by an executor; `quantgrid run` is for people.",
    )
