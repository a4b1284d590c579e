"""Which task goes to which machine: pure.

A container takes a minute to come and many cells take seconds, so a machine that is there serves
the next tasks of its kind; a new one is rented while there are fewer than allowed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Kind(NamedTuple):
    """What machines must have in common to serve the same tasks.

    Args:
        device: The platform's name of the accelerator; empty for none.
        num_devices: How many.
        options: What only some platforms know.
        max_microusd: What a lease may cost; None where only the caps bound it.
        run_s: How long a machine computes at most; None for what its platform says.
        alone: Empty, or what a machine is for that serves one task only.
    """

    device: str
    num_devices: int
    options: tuple[tuple[str, str], ...] = ()
    max_microusd: int | None = None
    run_s: float | None = None
    alone: str = ""


class Load(NamedTuple):
    """A lease and how much it has to do.

    Args:
        subject: Of the lease.
        kind: What it serves.
        num_tasks: Tasks in its queue that did not end.
        takes: Whether it may get more: its machine is wanted, and did not say how it ended.
    """

    subject: str
    kind: Kind
    num_tasks: int
    takes: bool


def placed(
    waiting: Iterable[tuple[T, Kind]], loads: Iterable[Load], machines: int, ahead: int
) -> Iterator[tuple[T, str]]:
    """Each task that can be given away now, with the subject of its lease, empty for a new one.

    Args:
        waiting: Tasks in the order in which they became ready, with their kinds.
        loads: Leases that are not over.
        machines: How many leases of one kind there may be.
        ahead: How many tasks a lease may have at a time.
    """
    known = list(loads)
    for task, kind in waiting:
        mine = [load for load in known if load.kind == kind]
        free = (load for load in mine if load.takes and not kind.alone)
        best = min(free, key=lambda load: load.num_tasks, default=None)
        if best and best.num_tasks == 0:
            chosen = best
        elif len(mine) < machines:
            chosen = Load("", kind, 0, takes=False)  # nobody knows its subject yet
            known.append(chosen)
        elif best and best.num_tasks < ahead:
            chosen = best
        else:
            continue
        known[known.index(chosen)] = chosen._replace(num_tasks=chosen.num_tasks + 1)
        yield task, chosen.subject
