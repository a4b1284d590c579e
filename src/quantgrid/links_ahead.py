"""What a cap means for a plan: how many links the trunks that were begun still need."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from quantgrid import layout, links
from quantgrid.job import Stage
from quantgrid.plan import Plan, State
from quantgrid.settings import Platform
from quantgrid.spec import Cell
from quantgrid.watching import Limits
from quantgrid.wording import counted


def link_s(platform: Platform) -> float | None:
    """Seconds that the runner gives a link here and now; None if no cap ends one."""
    factor = platform.clock_factor
    cap_s = None if platform.cap_s is None else platform.cap_s / factor
    return Limits(cap_s, platform.grace_s / factor).deadline_s(os.environ, time.time())


def sentence(plan: Plan, volume: Path, platform: Platform) -> str:
    """One line on the links that are still to come; empty where nothing tells how many.

    A trunk tells by the speed of its links so far, so that one that was never begun, or whose
    state lies on another volume, is counted apart.
    """
    seconds, stages = link_s(platform), {stage.record: stage for stage in _trunks(plan)}
    told = [_more(stage, volume, seconds) for stage in stages.values()]
    known = [each for each in told if each is not None]
    if not known or seconds is None:
        return ""
    others = len(told) - len(known)
    rest = f"; no speed is told yet of {counted(others, 'more trunk')}" if others else ""
    return (
        f"links: {sum(known)} more of up to {seconds:.0f} s each for "
        f"{counted(len(known), 'begun trunk')}, at the speed so far{rest}"
    )


def _trunks(plan: Plan) -> Iterator[Stage]:
    """The trunks up to each milestone that a plan makes; no other stage takes more than a link."""
    lineage = plan.lineage
    for cell in plan.wanted:
        if isinstance(cell, Cell) and plan.state(cell) is State.MAKE:
            stage = lineage.milestones[cell.trunk.id, cell.milestone]
            if stage.record not in plan.index:
                yield stage


def _more(stage: Stage, volume: Path, seconds: float | None) -> int | None:
    owner = layout.owner_of(stage.record)
    state = layout.state_folder(volume, owner, stage.name, stage.fingerprint)
    return links.more_links(stage.spec["num_tokens"], links.peek(state), seconds)
