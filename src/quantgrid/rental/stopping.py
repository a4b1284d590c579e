"""Ends all machines of a working copy, and confirms it; those of others are not touched."""

import sys
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import PlatformFault
from quantgrid.load import load_platform, load_settings
from quantgrid.rental.clearing import Patience, end_leases
from quantgrid.rental.facts import facts_of
from quantgrid.rental.lease import Lease
from quantgrid.rental.register import Register
from quantgrid.rental.renting import is_of_copy
from quantgrid.rental.stepping import stepper
from quantgrid.settings import Settings
from quantgrid.store import open_store


class Rented(NamedTuple):
    """What a working copy rents on a platform."""

    root: Path
    copy: Path
    settings: Settings
    platform: str
    leases: tuple[Lease, ...]

    def end(self, wait_s: float) -> None:
        """End it all, what a coordinator rents meanwhile too.

        Raises:
            PlatformFault: naming what is not over after the wait.
        """
        facts = facts_of(load_platform(self.root, self.platform))
        rounds = stepper(facts, self.settings, self.copy, _say)
        patience = Patience(wait_s, every_s=max(0.2, min(2.0, facts.real_s(10.0))))
        left = end_leases(rounds, lambda lease: is_of_copy(lease.by, self.copy), patience)
        left |= {lease.subject: lease for lease in self._of_others(rounds.platform.whoami().id)}
        if left:
            raise PlatformFault(
                f"not every machine on {self.platform} could be ended",
                seen=", ".join(f"{each.cell} ({each.phase})" for each in left.values()),
                do="Type `quantgrid stop` again; `quantgrid leases` shows what may still cost.",
            )

    def _of_others(self, account: str) -> list[Lease]:
        """Leases that another account pays for, which cannot be ended with this one's key."""
        return [lease for lease in self.leases if lease.account != account]


def leases_of_copy(root: Path, copy: Path) -> list[Rented]:
    """What a working copy rents, by platform; its leases name it, wherever its controller ran.

    Args:
        root: Folder of the Snakefile.
        copy: The working copy.

    Raises:
        PlatformFault: when the store does not answer.
    """
    if not (root / layout.CONFIG).is_file():
        return []
    settings = load_settings(root, {})
    found: dict[str, list[Lease]] = {}
    for numbered in Register(open_store(settings.archive, copy)).leases().values():
        if is_of_copy(numbered.lease.by, copy):
            found.setdefault(numbered.lease.platform, []).append(numbered.lease)
    return [
        Rented(root, copy, settings, platform, tuple(leases)) for platform, leases in found.items()
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
