"""From the facts of a platform to a tenant that rents there: terms, orders, workers, names."""

import os
import queue
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from quantgrid import processes, workspace
from quantgrid.archive import Archive
from quantgrid.atomic import start_of
from quantgrid.rental import presence
from quantgrid.rental.briefing import Briefing
from quantgrid.rental.collecting import Collector, verifier
from quantgrid.rental.facts import Facts
from quantgrid.rental.lease import Lease, Terms
from quantgrid.rental.packing import Kind
from quantgrid.rental.port import Candidate, Name, Order, Platform
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Caps
from quantgrid.rental.tenant import House, Tenant
from quantgrid.store import Store

_HOUR_S = 3600.0
_NAME_WORDS = 5
_OVERHEAD_S = 420.0
"""What a promise has beside boot and computing: five minutes for the end, grace, rounding."""
_FRESH_S = 60.0
"""For so long the ways to get a machine are not asked for again."""


class Workers:
    """Threads for calls that may take minutes; they end with the process, whatever they do.

    A create that dies with its controller is found by its name (docs/formats/rental.md).
    """

    def __init__(self, count: int) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for _ in range(count):
            threading.Thread(target=self._work, daemon=True).start()

    def start(self, call: Callable[[], None]) -> None:
        """Make a call as soon as a thread is free."""
        self._calls.put(call)

    def _work(self) -> None:
        while True:
            self._calls.get()()


# -- who we are -----------------------------------------------------------------------------------


def controller_name(root: Path) -> str:
    """A name for a controller of a working copy, unique for ever.

    Others see by it that the controller is dead, and the working copy that a lease is its own.
    """
    pid = os.getpid()
    return f"{_copy(root)}.{_place()}.{pid}.{start_of(pid)}.{os.urandom(4).hex()}"


def is_dead(by: str) -> bool:
    """Whether a controller is dead for sure: of another machine nobody here knows that."""
    words = by.split(".")
    is_here = len(words) == _NAME_WORDS and words[1] == _place() and words[2].isdigit()
    return is_here and start_of(int(words[2])) != words[3]


def is_of_copy(by: str, root: Path) -> bool:
    """Whether a controller belonged to a working copy, wherever it ran."""
    return by.partition(".")[0] == _copy(root)


def forget_controller(store: Store, root: Path) -> None:
    """No machine waits for a word of the controller of a working copy any more.

    Raises:
        PlatformFault: when the store does not answer.
    """
    presence.forget(store, _copy(root))


def _copy(root: Path) -> str:
    return sha256(workspace.copy_id(root).encode()).hexdigest()[:12]


def _place() -> str:
    return sha256(processes.place().encode()).hexdigest()[:12]


# -- what a lease is ------------------------------------------------------------------------------


def terms(facts: Facts, platform: Platform, kind: Kind, ways: tuple[Candidate, ...]) -> Terms:
    """How patient a lease of a kind is; its machines never run longer than its money does."""
    real_s, run_s = facts.real_s, kind.run_s or facts.run_s
    run_s = real_s(run_s)
    per_h = max((each.price.microusd_per_h for each in ways), default=0)
    if kind.max_microusd is not None and per_h:
        spare_s = platform.limits.boot_s + platform.limits.grace_s + _OVERHEAD_S
        run_s = max(min(run_s, kind.max_microusd / per_h * _HOUR_S - spare_s), 0.0)
    return Terms(
        ways,
        platform.limits,
        run_s,
        max_links=facts.max_links,
        capacity_s=real_s(86_400.0),
        wait_s=real_s(60.0),
        beat_s=real_s(60.0),
        stall_s=real_s(900.0),
        look_s=real_s(60.0),
        again_s=real_s(30.0),
        alarm_s=real_s(900.0),
    )


class Leases:
    """Makes what is wanted of a platform: terms with prices of the hour, and orders.

    Args:
        facts: Of the platform.
        platform: The platform.
        address: Of the store, as a machine finds it.
    """

    def __init__(self, facts: Facts, platform: Platform, address: str) -> None:
        self.facts, self.platform, self.address = facts, platform, address
        self._ways: dict[tuple[str, int], tuple[float, tuple[Candidate, ...]]] = {}

    def wanted(self, subject: str, cell: str, grid: str, kind: Kind) -> Wanted:
        """A lease of a kind.

        Raises:
            CallFault: when the platform does not say what there is.
        """
        ways = self._candidates(kind.device, kind.num_devices)
        return self._wanted(subject, cell, grid, kind, terms(self.facts, self.platform, kind, ways))

    def last(self, lease: Lease) -> Wanted:
        """A lease that nobody asks for any more: no further machine after this one."""
        device, count = lease.candidate.device, lease.candidate.num_devices
        kind = Kind(device, count)
        patience = terms(self.facts, self.platform, kind, (lease.candidate,))
        patience = patience._replace(max_links=0, max_interruptions=0, max_failures=0)
        return self._wanted(lease.subject, lease.cell, lease.grid, kind, patience)

    def _wanted(self, subject: str, cell: str, grid: str, kind: Kind, patience: Terms) -> Wanted:
        return Wanted(
            subject,
            cell,
            grid,
            self.facts.account,
            self.facts.volume,
            patience,
            lambda lease, name: self._order(lease, name, kind),
            kind.max_microusd,
            tuple(self.facts.volumes.values()),
        )

    def _candidates(self, device: str, count: int) -> tuple[Candidate, ...]:
        asked_s, ways = self._ways.get((device, count), (0.0, ()))
        if not ways or time.monotonic() - asked_s > _FRESH_S:
            ways = self.platform.candidates(device, count)
            self._ways[device, count] = time.monotonic(), ways
        return ways

    def _order(self, lease: Lease, name: Name, kind: Kind) -> Order:
        facts = self.facts
        return Order(
            name,
            lease.candidate,
            facts.image,
            (facts.python, "-m", "quantgrid", "supervise"),
            self._briefing(lease).environment(),
            facts.secrets,
            facts.volume_in(lease.candidate.region),
            facts.mount,
            lease.deadline_s,
            kind.options,
        )

    def _briefing(self, lease: Lease) -> Briefing:
        facts = self.facts
        return Briefing(
            store=self.address,
            subject=lease.subject,
            nonce=lease.nonce,
            deadline=lease.deadline_s,
            platform=facts.name,
            id_variable=facts.id_variable,
            ends_by=facts.ends_by,
            mount=facts.mount,
            gpus=lease.candidate.num_devices if lease.candidate.device else 0,
            idle_s=facts.idle_s,
            grace_s=facts.grace_s,
            clock_factor=facts.clock_factor,
        )


def tenant(
    facts: Facts,
    platform: Platform,
    archive: Archive,
    root: Path,
    caps: Caps,
    say: Callable[[str], None],
) -> Tenant:
    """A tenant of a platform for the jobs of a working copy."""
    register, verify = Register(archive.store), verifier(archive)
    workers = Workers(min(facts.machines, 8) + 1)
    ways = Ways(
        now=archive.store.now,
        start=workers.start,
        fresh=lambda: os.urandom(6).hex(),
        verify=verify,
        tell=say,
        is_dead=is_dead,
    )
    rounds = Rounds(platform, register, caps, controller_name(root), ways)
    leases = Leases(facts, platform, archive.store.address)
    house = House(
        facts.machines,
        facts.ahead,
        leases.wanted,
        leases.last,
        lambda by: is_of_copy(by, root) and is_dead(by),
        workers.start,
        say,
    )
    return Tenant(rounds, Collector(register, root, verify), root, house)
