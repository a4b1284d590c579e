"""What may be ended of the machines that an account shows: pure, and reluctant.

A machine is reaped only when it is ours by name and owner, when no lease wants it or its lease has
outlived its deadline, and when it gave no sign of life for long.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quantgrid.rental.lease import Lease, Phase, Signs
from quantgrid.rental.port import Machine, Name, find_name

SILENT_S = 900.0
"""Without a beat for this long a machine counts as silent; fifteen beats."""


class Finding(NamedTuple):
    """A machine of ours, and what its lease says of it.

    Args:
        machine: The machine.
        name: What its name says.
        why: One clause for a person.
        is_reapable: Whether it may be ended.
    """

    machine: Machine
    name: Name
    why: str
    is_reapable: bool


def findings(
    machines: Iterable[Machine],
    owner: str,
    leases: Mapping[str, Lease],
    signs: Mapping[str, Signs],
    now_s: float,
) -> Iterator[Finding]:
    """What is known of every machine of an owner; others' machines are not even named.

    Args:
        machines: From one listing, made before the register was read: a machine that is listed has
            its state in the register by then.
        owner: The register's own.
        leases: The newest state of all leases, ended ones too, by subject.
        signs: By nonce, of all nonces in the names of the machines.
        now_s: The time by the store's clock.
    """
    by_digits = {subject[:12]: lease for subject, lease in leases.items()}
    for machine in machines:
        name = find_name(machine.name)
        if name is None or name.owner != owner:
            continue
        why = _unwanted(name, by_digits.get(name.subject), now_s)
        age_s = signs.get(name.nonce, Signs()).beat_age_s
        if why and age_s is not None and age_s <= SILENT_S:
            yield Finding(machine, name, f"{why}, but beat {age_s:.0f} s ago", is_reapable=False)
        else:
            yield Finding(machine, name, why or "its lease wants it", is_reapable=bool(why))


def _unwanted(name: Name, lease: Lease | None, now_s: float) -> str:
    """Why no lease wants a machine; empty when one does."""
    if lease is None:
        return "no lease tells of it"
    if name.attempt > lease.attempt:  # written after the register was read
        return ""
    if name.nonce != lease.nonce:
        return f"its lease has machine {lease.attempt}, and this is machine {name.attempt}"
    if lease.phase.is_over or lease.phase is Phase.PLANNED:
        return f"its lease is {lease.phase}"
    late_s = now_s - lease.deadline_s - SILENT_S
    return f"its deadline was {late_s + SILENT_S:.0f} s ago" if late_s > 0 else ""
