"""Ends what is rented, or what nobody wants any more, and confirms that it is gone."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from quantgrid.rental.errors import CallFault
from quantgrid.rental.lease import Lease
from quantgrid.rental.port import Machine, MachineState, Platform, find_name
from quantgrid.rental.reaping import Finding, findings
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds

_SURE = 2
"""Rounds in a row that must show nothing: a controller may have been about to write."""


class Patience(NamedTuple):
    """How long to wait, and how: seconds of this machine's clock.

    Args:
        wait_s: For everything to be gone.
        every_s: Between two looks.
        sleep: Waits some seconds.
    """

    wait_s: float
    every_s: float = 2.0
    sleep: Callable[[float], None] = time.sleep

    def rounds(self) -> Iterator[int]:
        """Numbers of looks, with a wait between them, until patience ends."""
        ends_s, number = time.monotonic() + self.wait_s, 0
        while not number or time.monotonic() < ends_s:
            yield number
            number += 1
            self.sleep(self.every_s)


def end_leases(
    rounds: Rounds, is_meant: Callable[[Lease], bool], patience: Patience
) -> dict[str, Lease]:
    """End all leases that are meant, those that appear meanwhile too; what is not over in time.

    Args:
        rounds: Of a controller that wants nothing.
        is_meant: Whether a lease is to be ended.
        patience: How long to wait.
    """
    left: dict[str, Lease] = {}
    num_clear = 0
    for _ in patience.rounds():
        if not rounds.go():
            num_clear = 0
            continue
        left = {k: lease for k, lease in rounds.open.items() if is_meant(lease)}
        for subject in left:
            rounds.cancel(subject)
        num_clear = 0 if left else num_clear + 1
        if num_clear >= _SURE:
            break
    return left


def look(platform: Platform, register: Register) -> tuple[Finding, ...]:
    """What the machines of ours are on a platform, the listing first.

    A machine whose lease cannot be read is wanted by it, for all that is known.

    Raises:
        CallFault: when the platform does not list them.
        PlatformFault: when the store does not answer.
    """
    owner = register.owner()
    machines = platform.machines(owner)
    names = [name for each in machines if (name := find_name(each.name))]
    leases = {key: each.lease for key, each in register.leases(ended=True).items()}
    signs = register.signs(name.nonce for name in names)
    now_s = register.store.now().timestamp()
    unread = {subject[:12] for subject in register.damaged}
    found = findings(machines, owner, leases, signs, now_s)
    return tuple(_spared(each) if each.name.subject in unread else each for each in found)


def _spared(finding: Finding) -> Finding:
    return finding._replace(why="its lease cannot be read", is_reapable=False)


def end_machines(
    platform: Platform, register: Register, meant: Iterable[Finding], patience: Patience
) -> tuple[Machine, ...]:
    """End machines that nobody wants, and confirm it; those that are not gone in time.

    Each is judged again right before it is asked to end.

    Raises:
        PlatformFault: when the store does not answer.
    """
    ids = {finding.machine.id for finding in meant}
    left: tuple[Machine, ...] = ()
    num_clear = 0
    for _ in patience.rounds():
        with suppress(CallFault):
            found = [each for each in look(platform, register) if each.machine.id in ids]
            left = tuple(each.machine for each in found if _costs(each.machine))
            for each in found:
                if each.is_reapable and _costs(each.machine):
                    platform.stop(each.machine.id)
            num_clear = 0 if left else num_clear + 1
            if num_clear >= _SURE:
                break
    return left


def _costs(machine: Machine) -> bool:
    return machine.is_billing or machine.state is not MachineState.ENDED
