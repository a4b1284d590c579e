"""A controller of the product on the plain platform, with patience of a few seconds."""

import os
import threading
import time
from typing import Any

from quantgrid.rental.facts import Facts
from quantgrid.rental.lease import Lease, Phase, Terms
from quantgrid.rental.port import Candidate, Limits, Name, Order, Price
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Caps
from rehearsal.plain.platform import PlainPlatform
from supervised import COMMAND, House

LIMITS = {"cap_s": 90.0, "grace_s": 1.0, "boot_s": 20.0, "create_s": 3.0, "visible_s": 0.3}
PRICE = Price(360_000, "test", "2026-11-30")
WAYS = (Candidate("cpu", 1, "here", PRICE),)
TERMS = Terms(
    WAYS,
    Limits(**LIMITS),
    run_s=60.0,
    capacity_s=60.0,
    wait_s=0.2,
    beat_s=0.3,
    stall_s=20.0,
    look_s=0.3,
    again_s=0.3,
    alarm_s=10.0,
)


class Renter:
    """Rents machines of a house for subjects, round after round.

    Args:
        house: Store and platform.
        told: Changes of what the machines are told.
    """

    def __init__(self, house: House, **told: Any) -> None:
        self.house, self.told = house, told
        self.said: list[str] = []
        self.facts = Facts("plain", "plain", "lab/main", "image", "PLAIN_MACHINE", volume="v")
        platform = PlainPlatform(house.double.address, "token-main", limits=LIMITS, timeout_s=2.0)
        ways = Ways(
            now=house.store.now,
            start=lambda call: threading.Thread(target=call, daemon=True).start(),
            fresh=lambda: os.urandom(6).hex(),
            verify=lambda _: True,
            tell=self.said.append,
            is_dead=lambda _: True,
        )
        by = os.urandom(4).hex()
        self.rounds = Rounds(platform, house.register, Caps(), by, ways)

    def want(self, subject: str, terms: Terms = TERMS, volume: str = "v") -> None:
        """Want a machine for a subject."""
        self.rounds.want(
            Wanted(
                subject,
                f"cell-{subject[:4]}",
                "grid",
                self.facts.account,
                volume,
                terms,
                self.order,
                others=tuple(self.facts.volumes.values()),
            )
        )

    def order(self, lease: Lease, name: Name) -> Order:
        """What the machine of a lease is launched with."""
        told = self.house.briefing(lease, **self.told)
        environment, end_s = told.environment(), lease.deadline_s
        volume = self.facts.volume_in(lease.candidate.region)
        return Order(
            name, lease.candidate, "image", COMMAND, environment, (), volume, "volume", end_s
        )

    def lease(self, subject: str) -> Lease:
        """The newest state of a lease."""
        newest = self.house.register.newest(subject)
        return newest.lease if newest else Lease(subject, "", "", "", "")

    def until(self, subject: str, *phases: Phase, timeout_s: float = 180.0) -> Lease:
        """Rounds until a lease is in one of some phases."""
        end_s = time.monotonic() + timeout_s
        while (lease := self.lease(subject)).phase not in phases:
            assert time.monotonic() < end_s, (lease, self.said)
            self.rounds.go()
            time.sleep(0.05)
        return lease
