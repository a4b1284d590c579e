"""Controllers of leases that want nothing: for commands that look, end and pay."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from quantgrid import load
from quantgrid.archive import opened
from quantgrid.load import load_platform
from quantgrid.rental import reach
from quantgrid.rental.collecting import verifier
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.register import Register
from quantgrid.rental.renting import controller_name, is_dead
from quantgrid.rental.rounds import Rounds, Ways
from quantgrid.rental.spend import Caps
from quantgrid.settings import Settings


def rented(root: Path) -> Iterator[Facts]:
    """The facts of all platforms of the configuration that rent."""
    for name in load.names(root, "platform"):
        platform = load_platform(root, name)
        if platform.rented is not None:
            yield facts_of(platform)


def stepper(facts: Facts, settings: Settings, root: Path, say: Callable[[str], None]) -> Rounds:
    """Rounds on a platform that want nothing: they only step what is cancelled or left.

    Raises:
        ConfigRefusal: when nothing here reaches the platform.
    """
    archive = opened.of(settings, root)
    ways = Ways(
        now=archive.store.now,
        start=lambda call: call(),
        fresh=lambda: os.urandom(6).hex(),
        verify=verifier(archive),
        tell=say,
        is_dead=is_dead,
    )
    register = Register(archive.store)
    return Rounds(reach.connect(facts), register, Caps(), controller_name(root), ways)
