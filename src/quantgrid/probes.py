"""Probes: what a model and a method take on a device, measured before it is paid for long.

A probe is of one model, one class of methods, one device and so many cells at once; it is void when
the science of its stages changes, and not by a comment.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import layout
from quantgrid.devices import load_device
from quantgrid.errors import BudgetRefusal
from quantgrid.fingerprint import digest
from quantgrid.forecast import Rate, Rates, guessed
from quantgrid.forms import METHODS, refuse_unknown
from quantgrid.grid import Grid
from quantgrid.lineage import Science
from quantgrid.plan import Plan, State
from quantgrid.settings import Money, Platform, Settings
from quantgrid.spec import BASE, Cell, canonical_spec

SCHEMA = "quantgrid/probe"
VERSION = 3
CAP_S = 300.0
"""A probe ends itself after so long, the boot of a machine not counted."""
BOOT_S = 2400.0
"""What a rented machine may be paid for beside its probe: one that never comes is given up after 32
minutes (`quantgrid.rental.modal.LIMITS`), and a promise has seven more for the end."""


class Probe(NamedTuple):
    """One thing to measure.

    Args:
        id: `<model>-<method>`.
        cell: The first cell of the grid with this model and method; its form is measured.
        fingerprint: Of all that makes it the same measurement.
    """

    id: str
    cell: Cell
    fingerprint: str

    @property
    def receipt(self) -> str:
        """Where the numbers are, in a working copy."""
        return layout.PROBED.format(probe=self.id, fp=self.fingerprint)


def probe_id(cell: Cell) -> str:
    """The probe that measures cells of this kind."""
    return f"{cell.trunk.model.name}-{cell.form.method}"


def find_cell(grid: Grid, name: str) -> Cell:
    """The cell of a grid, or of the bases that it needs, that a probe measures.

    Raises:
        ConfigRefusal: for a name that is of none.
    """
    plain = [replace(cell, form=BASE) for cell in grid.cells]
    found = {probe_id(cell): cell for cell in (*reversed(plain), *reversed(grid.cells))}
    refuse_unknown([name], sorted(found), lambda *_: f"grid {grid.name}", "probe")
    return found[name]


def needed(plan: Plan, platform: Platform, code: Path) -> dict[str, Probe]:
    """The probes of all that a plan makes, by id: of each form, and of the bases they need."""
    makes = {State.MAKE, State.EVALUATE}
    ids: dict[str, None] = {}
    for cell in plan.wanted:
        if isinstance(cell, Cell) and plan.state(cell) in makes:
            ids[f"{cell.trunk.model.name}-{BASE.method}"] = None
            ids[probe_id(cell)] = None
    science = Science(code)
    grid = plan.lineage.grid
    return {each: _probe(each, find_cell(grid, each), platform, science) for each in ids}


def _probe(name: str, cell: Cell, platform: Platform, science: Science) -> Probe:
    own = {
        "schema": [SCHEMA, VERSION],
        "model": canonical_spec(cell.trunk.model),
        "form": canonical_spec(cell.form),
        "metrics": list(cell.evaluation.metrics),
        "device": [platform.device, platform.bills_as, platform.threads],
        "at_once": platform.at_once,
        "science": _stages(cell, science),
    }
    return Probe(name, cell, digest(own))


def _stages(cell: Cell, science: Science) -> list[str]:
    """Digests of the stages that the numbers are about."""
    method = METHODS[cell.form.method]
    if cell.form == BASE:
        return [science.stage(each) for each in ("trunk", "cooldown", "evaluate")]
    makes = science.method("qat" if method.trains else "quantise", cell.form.method)
    return [makes, science.stage("evaluate_running" if method.runs else "evaluate")]


# -- what they measured ---------------------------------------------------------------------------


def measured(
    probes: Iterable[Probe], root: Path, guess: Rates, *, is_warm: bool, time: str = "wall_s"
) -> tuple[Rates, list[str]]:
    """Rates of what was probed, and guesses for the rest, whose probes are named.

    Args:
        probes: All probes that are needed.
        root: The working copy.
        guess: Rates of what was not probed.
        is_warm: Whether jobs are forked from an interpreter that has everything imported.
        time: Which of the times that were measured, `wall_s` or `cpu_s`.
    """
    found = {
        each.id: _find_rate(root / each.receipt, is_warm=is_warm, time=time) for each in probes
    }
    known = {name: rate for name, rate in found.items() if rate}

    def rate(cell: Cell) -> Rate:
        return known.get(probe_id(cell)) or guess(cell)

    return rate, [name for name in found if name not in known]


def _find_rate(path: Path, *, is_warm: bool, time: str) -> Rate | None:
    try:
        said: Mapping[str, Any] = json.loads(path.read_bytes())
        times = {name: float(each[time]) for name, each in said["seconds"].items()}
        start_s = times["start"] + (0.0 if is_warm else times["import"])
        return Rate(start_s, times["step"], times["quantise"], times["sequence"], times["save"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def rates_of(
    settings: Settings, platform: Platform, plan: Plan, root: Path, *, time: str = "wall_s"
) -> tuple[Rates, list[str]]:
    """What each kind of work takes, as measured or guessed, and what was guessed."""
    guess = guessed(load_device(settings.root, platform.bills_as or _GUESSES))
    asked = needed(plan, platform, settings.root).values()
    return measured(asked, root, guess, is_warm=platform.warm, time=time)


_GUESSES = "here"
"""The device whose speed is guessed from where nothing is paid."""


def most_usd(platform: Platform, usd_per_hour: float) -> float:
    """What measuring one thing may cost, with the boot of its machine where one is rented."""
    return (CAP_S + (BOOT_S if platform.rented else 0.0)) / 3600 * usd_per_hour


def refuse_dear(
    probes: Iterable[Probe], root: Path, platform: Platform, usd_per_hour: float, money: Money
) -> None:
    """Refuse to measure what may cost more than a person allowed.

    Raises:
        BudgetRefusal: with both numbers.
    """
    missing = [each.id for each in probes if not (root / each.receipt).exists()]
    usd = len(missing) * most_usd(platform, usd_per_hour)
    boot = f" and a boot of {BOOT_S:.0f} s at most" if platform.rented else ""
    each = f"{CAP_S:.0f} s{boot} at ${usd_per_hour:,.2f} an hour"
    if usd > money.probe_max_usd:
        raise BudgetRefusal(
            f"measuring {', '.join(missing)} may cost more than was allowed",
            expected=f"at most ${money.probe_max_usd:,.2f} (money.probe_max_usd)",
            seen=f"${usd:,.2f}: {len(missing)} x {each}",
            where=layout.CONFIG,
            do=f"Allow it: --config money='{{probe_max_usd: {ceil(usd * 100) / 100:.2f}}}'.",
        )
