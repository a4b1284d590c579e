"""Which cells of a grid other controllers compute now, as a plan sees it: advice, not a claim."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from quantgrid import layout
from quantgrid.hold import Holder, Seen, live
from quantgrid.job import Stage
from quantgrid.lineage import Lineage
from quantgrid.store import Store
from quantgrid.wording import agreeing, counted

_NAMED = 3


def held_elsewhere(
    lineage: Lineage, index: frozenset[str], store: Store, root: Path, platform: str = ""
) -> dict[str, Seen]:
    """Cells that wait for somebody else, with who that is.

    A cell waits when its own record, or one that must be made before it, is held by a living
    holder of another working copy.  What a rented machine of the plan's own platform computes is
    asked for as before: a task of the register is found there, and its end brought home.

    Args:
        lineage: What each cell is made from.
        index: Keys of all records of the archive.
        store: Where holds are.
        root: This working copy, whose own holds are its own affair.
        platform: Where the plan computes.
    """
    stages = {stage.record: stage for stage in _stages(lineage)}
    records = {stage.fingerprint: record for record, stage in stages.items() if record not in index}
    holds = live(store, records)
    others = {
        records[own]: seen
        for own, seen in holds.items()
        if not (_is_own(seen.claim.holder, root) or _is_joined(seen.claim.holder, platform))
    }
    return _waiting(lineage, stages, index, others) if others else {}


def _waiting(
    lineage: Lineage,
    stages: Mapping[str, Stage],
    index: frozenset[str],
    others: Mapping[str, Seen],
) -> dict[str, Seen]:
    @cache
    def who(record: str) -> Seen | None:
        if record in index or record not in stages:
            return None
        stage = stages[record]
        before = map(who, (*stage.parents.values(), *stage.resume[:1]))
        return others.get(record) or next(filter(None, before), None)

    found = {cell.id: who(lineage.cells[cell.id].record) for cell in lineage.grid.every}
    return {cell: seen for cell, seen in found.items() if seen}


def _stages(lineage: Lineage) -> Iterable[Stage]:
    for part in (lineage.milestones, lineage.bases, lineage.weights, lineage.cells):
        yield from part.values()


def _is_own(holder: Holder, root: Path) -> bool:
    try:
        copy = (root / layout.COPY_ID).read_text()
    except FileNotFoundError:
        return False
    return (holder.host, holder.place, holder.copy) == (os.uname().nodename, str(root), copy)


def _is_joined(holder: Holder, platform: str) -> bool:
    return bool(holder.machine) and holder.platform == platform


def sentence(elsewhere: Mapping[str, Seen]) -> str:
    """Who computes what is left out, and what to do about it."""
    holders = {seen.claim.holder.id: seen.words() for seen in elsewhere.values()}
    more = f" and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
    return (
        f"held elsewhere: {counted(len(elsewhere), 'cell')} "
        f"{agreeing(len(elsewhere), 'is', 'are')} computed, or waited for, by "
        f"{'; '.join(sorted(holders.values())[:_NAMED])}{more}. "
        "They are left out, and with them table and page; run again to fold them, "
        "or wait for them with --config on_held=wait."
    )
