"""What a perfect controller would have been billed for the same works, on the same bad days.

It knows every fault beforehand, and nothing of the product.  It pays for each line once, for as
long as the line ran; for the boot of as many machines as may run beside each other; for every
machine whose host was lost, until the loss, and for the boot of the one that took its place.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from rehearsal.plain.state import Machine
from rehearsal.plain.works import Work


class Bill(NamedTuple):
    """Seconds that nobody could have saved, and what they cost.

    Args:
        work_s: Lines that ran to their end, each once.
        boot_s: From the creates to the first lines, as fast as it ever was here.
        lost_s: Machines that were taken away.
        microusd: All of it at the price of the machines.
    """

    work_s: float
    boot_s: float
    lost_s: float
    microusd: int


class Spent(NamedTuple):
    """Where the seconds of one machine went; together they are what it was billed for.

    Args:
        boot_s: From its create to its first line; all of it when there was none.
        work_s: Lines that ran.
        between_s: Between two lines.
        after_s: From the end of its last line to its own.
        num_lines: How many lines ran.
        is_lost: Whether its host was lost.
    """

    boot_s: float
    work_s: float
    between_s: float
    after_s: float
    num_lines: int
    is_lost: bool


def spent(machines: Sequence[Machine], works: Iterable[Work]) -> list[Spent]:
    """Where the seconds of all machines went, each ended, in their order."""
    ran: dict[str, list[Work]] = {}
    for work in works:
        ran.setdefault(work.machine, []).append(work)
    return [_spent(each, ran.get(each.id, [])) for each in machines]


def _spent(machine: Machine, ran: list[Work]) -> Spent:
    begin_s = min((work.begin_s for work in ran), default=machine.ended_s)
    end_s = max((work.end_s for work in ran), default=machine.ended_s)
    work_s = sum(work.end_s - work.begin_s for work in ran)
    return Spent(
        begin_s - machine.begin_s,
        work_s,
        end_s - begin_s - work_s,
        machine.ended_s - end_s,
        len(ran),
        machine.killed,
    )


def perfect(
    machines: Sequence[Machine], works: Iterable[Work], width: int, *, alike: bool = False
) -> Bill:
    """The least that a schedule costs.

    Args:
        machines: All that ever were, each ended.
        works: All lines that ran in them.
        width: How many machines may run beside each other.
        alike: Whether all lines are equal work: then none needs longer than the median.
    """
    lost = {each.id for each in machines if each.killed}
    began: dict[str, float] = {}
    needed: dict[str, float] = {}
    for work in works:
        began[work.machine] = min(work.begin_s, began.get(work.machine, math.inf))
        if work.machine not in lost:
            seconds = work.end_s - work.begin_s
            needed[work.line] = min(seconds, needed.get(work.line, math.inf))
    boots = [began[each.id] - each.begin_s for each in machines if each.id in began]
    most_s = median(needed.values()) if alike and needed else math.inf
    work_s = sum(min(seconds, most_s) for seconds in needed.values())
    boot_s = min(boots, default=0.0)
    boot_s *= min(width, len(needed)) + len(lost)
    lost_s = sum(each.ended_s - each.begin_s for each in machines if each.id in lost)
    price = min((each.price_usd for each in machines), default=0.0)
    total = math.floor((work_s + boot_s + lost_s) * price * 1e6 / 3600)
    return Bill(work_s, boot_s, lost_s, total)
