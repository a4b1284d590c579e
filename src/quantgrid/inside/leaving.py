"""The end of a machine by its own call, again and again until it is dead."""

import importlib
import os
import threading
from collections.abc import Mapping

from quantgrid.clock import Clock
from quantgrid.errors import QuantgridError
from quantgrid.inside.patience import tell
from quantgrid.rental.port import Platform

_AGAIN_S = 10.0
_LEAST_S = 0.2


def platform_of(ends_by: str, environment: Mapping[str, str]) -> Platform:
    """The port that a machine ends itself with: `module:function`, called with the environment."""
    module, _, function = ends_by.partition(":")
    found: Platform = getattr(importlib.import_module(module), function)(environment)
    return found


def end_machine(ends_by: str, machine: str, factor: float, asked: threading.Event) -> None:
    """End this machine; return only where returning ends it, or when it was told to end.

    Args:
        ends_by: See `Briefing.ends_by`.
        machine: The id of this machine.
        factor: How much faster time goes than on a real platform.
        asked: Set when the platform asked this process to end: somebody else ended the machine.
    """
    if not ends_by:
        return
    pause_s = max(_AGAIN_S / factor, _LEAST_S)
    while True:
        try:
            platform_of(ends_by, os.environ).stop(machine)
        except QuantgridError as error:
            tell(f"this machine does not end yet: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, a machine that stays costs money
            tell(f"this machine cannot end itself: {error!r}")
        if asked.wait(pause_s):
            return


class LastResort:
    """Ends the machine some time after its deadline, whatever the rest of the process does then.

    Args:
        clock: Of the deadline.
        at_s: The moment of the monotonic clock.
        end: Ends the machine.
    """

    def __init__(self, clock: Clock, at_s: float, end: "threading.Event") -> None:
        self._clock, self._at_s, self._over = clock, at_s, end

    def watch(self, ends_by: str, machine: str, factor: float, asked: threading.Event) -> None:
        """From now on, in a thread of its own."""

        def wait() -> None:
            while (left_s := self._at_s - self._clock.monotonic_s()) > 0:
                if self._over.wait(left_s):
                    return
            tell("the deadline is over and this process is still busy: the machine ends now")
            end_machine(ends_by, machine, factor, asked)
            os._exit(1)  # without a port, the end of the first process is the end of the machine

        threading.Thread(target=wait, daemon=True).start()
