"""`quantgrid leases`: the machines that are rented or wanted, and what they may still cost."""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgrid.clock import timestamp
from quantgrid.load import load_settings
from quantgrid.rental.lease import Lease, Phase, Signs
from quantgrid.rental.queues import Queues
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Books, dollars, microusd
from quantgrid.rental.tasks import Task, TaskOrder, task_key
from quantgrid.store import open_store
from quantgrid.wording import counted

HELP = "show rented machines, how they do and what they may still cost; ends nothing"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--all", action="store_true", help="show leases that ended, too")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Read the register; no platform is asked, so it tells of machines of any account."""
    root = options.root.absolute()
    register = Register(open_store(load_settings(root, {}).archive, root))
    leases = [each.lease for each in register.leases(ended=options.all).values()]
    signs, books = register.signs(each.nonce for each in leases), register.books()
    jobs = _Jobs(register)
    shown = [_shown(lease, signs[lease.nonce]) | jobs.of(lease) for lease in sorted(leases)]
    money = _money(books, time.time())
    if options.json:
        print(json.dumps({"leases": shown, "damaged": register.damaged, **money}, indent=2))
    else:
        print("\n".join([*map(_line, shown), *register.damaged.values(), _sum(len(shown), money)]))
    return 0


def _shown(lease: Lease, signs: Signs) -> dict[str, Any]:
    return {
        "subject": lease.subject,
        "cell": lease.cell,
        "grid": lease.grid,
        "phase": str(lease.phase),
        "end": str(lease.end) if lease.end else None,
        "platform": lease.platform,
        "account": lease.account,
        "machine": lease.machine or None,
        "attempt": lease.attempt,
        "device": lease.candidate.device,
        "microusd_per_h": lease.candidate.price.microusd_per_h if _costs(lease) else 0,
        "deadline": _moment(lease.deadline_s) if _costs(lease) else None,
        "beat_age_s": signs.beat_age_s if lease.phase is Phase.RUNNING else None,
        "checkpoint": max(lease.checkpoint, signs.checkpoint),
        "links": lease.links,
        "interruptions": lease.interruptions,
        "failures": lease.failures,
    }


class _Jobs:
    """The jobs of leases, by the register whose signs were read.

    Args:
        register: The register.
    """

    def __init__(self, register: Register) -> None:
        self._register, self._queues = register, Queues(register.store)
        self._queues.read()

    def of(self, lease: Lease) -> dict[str, Any]:
        """What a lease works at, how many jobs wait behind it, and how many ended."""
        tasks = self._queues.of(lease.subject)
        left = [task for task in tasks if task not in self._register.ends]
        works = left[:1] if lease.phase is Phase.RUNNING else []
        return {
            "job": next(map(self._cell, works), None),
            "jobs_waiting": 0 if lease.phase.is_over else len(left) - len(works),
            "jobs_ended": len(tasks) - len(left),
        }

    def _cell(self, task: Task) -> str:
        key = task_key(task)
        return TaskOrder.parse(self._register.store.get(key), key).cell


def _costs(lease: Lease) -> bool:
    return not (lease.phase.is_over or lease.phase is Phase.PLANNED)


def _moment(moment_s: float) -> str:
    return timestamp(datetime.fromtimestamp(moment_s, UTC))


def _money(books: Books, now_s: float) -> dict[str, int]:
    return {
        "spent_microusd": sum(span.cost for span in books.spent()),
        "promised_microusd": sum(span.cost for span in books.owed(now_s)),
        "microusd_per_h": books.per_hour(),
        "unbilled_microusd": sum(microusd(*cost[3:], *cost[1:3]) for cost in books.unbilled()),
    }


def _line(shown: dict[str, Any]) -> str:
    beat = "" if shown["beat_age_s"] is None else f", last beat {shown['beat_age_s']:.0f} s ago"
    end = f" ({shown['end']})" if shown["end"] else ""
    until = f", ends itself by {shown['deadline']}" if shown["deadline"] else ""
    machine = f" on {shown['platform']} {shown['machine']}" if shown["machine"] else ""
    job = f", at {shown['job']}" if shown["job"] else ""
    wait = f", {counted(shown['jobs_waiting'], 'job')} in line" if shown["jobs_waiting"] else ""
    ended = f", {counted(shown['jobs_ended'], 'job')} ended" if shown["jobs_ended"] else ""
    return f"{shown['cell']:<32} {shown['phase']}{end}{machine}{job}{wait}{ended}{beat}{until}"


def _sum(count: int, money: dict[str, int]) -> str:
    spent, promised = dollars(money["spent_microusd"]), dollars(money["promised_microusd"])
    rate = dollars(money["microusd_per_h"])
    unbilled = money["unbilled_microusd"]
    ours = f", {dollars(unbilled)} of it by our own measure until it is billed" if unbilled else ""
    now = f"{counted(count, 'lease')}; {rate} an hour now"
    return f"{now}, up to {promised} to come, {spent} spent{ours}."
