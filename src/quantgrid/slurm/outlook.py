"""What a person is told of a working copy's jobs in SLURM; asks once, and not for long."""

from collections import Counter
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.errors import QuantgridError
from quantgrid.slurm.ending import find_open
from quantgrid.slurm.queue import Queue, Seen, name_of

_PATIENCE_S = 5.0


def to_json(root: Path) -> list[dict[str, Any]]:
    """The open submissions, each with what SLURM says; its state is None when SLURM is silent."""
    opened = find_open(root)
    if not opened:
        return []
    try:
        seen = Queue(name_of(root), _PATIENCE_S).look()
    except QuantgridError:
        seen = {}
    found = []
    for entry in opened:
        attempt = entry.attempts[-1]
        told: Seen | None = seen.get(attempt.token)
        facts = {"state": told.state, "where": told.where} if told else {"state": None, "where": ""}
        found.append({"subject": entry.subject, "job": attempt.job, "link": entry.number, **facts})
    return found


def lines(root: Path) -> list[str]:
    """How many jobs SLURM has, by state, and why they wait."""
    jobs = to_json(root)
    if not jobs:
        return []
    states = Counter(str(each["state"] or "unknown").lower() for each in jobs)
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    waiting = sorted({each["where"] for each in jobs if each["state"] == "PENDING"})
    why = [f"          waiting for {' '.join(waiting)}"] if waiting else []
    longest = max(jobs, key=lambda each: int(each["link"]))
    chain = f"          {layout.subject_name(longest['subject'])} is at its job {longest['link']}"
    return [f"slurm     {told}", *why, *([chain] if longest["link"] > 1 else [])]
