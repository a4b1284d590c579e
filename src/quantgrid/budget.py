"""What a plan will cost, whether that is allowed, and the largest part of it that is."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quantgrid import forecast, probes
from quantgrid.devices import Device, load_device
from quantgrid.errors import BudgetRefusal
from quantgrid.forecast import Forecast, Work
from quantgrid.plan import Plan
from quantgrid.proposal import Proposal, expression, propose
from quantgrid.rental.register import Register
from quantgrid.rental.thresholds import spent
from quantgrid.settings import MICROUSD, Money, Platform, Settings
from quantgrid.store import open_store
from quantgrid.wording import counted

SCHEMA = "quantgrid/budget"
VERSION = 2
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A forecast beside what may be spent.

    Args:
        settings: Grid, selection and caps.
        platform: Where it would run.
        device: What an hour there costs; None where nothing is paid.
        forecast: What the plan will still cost.
        guessed: Probes that nobody made, so that their numbers are guesses.
        spent_usd: What the grid did cost already.
        proposal: What the money buys.
        select: The expression that means just that, and what needs no making.
    """

    settings: Settings
    platform: Platform
    device: Device | None
    forecast: Forecast
    guessed: tuple[str, ...]
    spent_usd: float
    proposal: Proposal
    select: str

    @property
    def money(self) -> Money:
        """The caps."""
        return self.settings.money

    @property
    def usd_per_hour(self) -> float:
        """The price of a machine."""
        return self.device.usd_per_hour if self.device else 0.0

    def problems(self) -> list[str]:
        """Why the plan is not allowed, with numbers; nothing when it is."""
        if self.device is None:
            return []
        money, found = self.money, []
        total, cell = self.forecast.usd + self.spent_usd, self._longest_usd()
        if total > money.max_usd_per_grid:
            found.append(
                f"the grid would cost ${total:,.2f} (${self.spent_usd:,.2f} of it spent) and may "
                f"cost ${money.max_usd_per_grid:,.2f}"
            )
        if money.max_usd_per_cell is not None and cell > money.max_usd_per_cell:
            found.append(f"a cell would cost ${cell:,.2f}, may cost ${money.max_usd_per_cell:,.2f}")
        if money.cents_per_hour is not None and self.usd_per_hour * 100 > money.cents_per_hour:
            found.append(
                f"a machine costs {self.usd_per_hour * 100:,.0f} cents an hour, and all together "
                f"may cost {money.cents_per_hour:,.0f}"
            )
        return found

    def refuse_guesses(self) -> None:
        """Refuse to go by guesses.

        Raises:
            BudgetRefusal: naming what was not measured.
        """
        if self.guessed:
            raise BudgetRefusal(
                f"{', '.join(self.guessed)} were not measured",
                do="Run `snakemake screens`; it measures what is missing.",
            )

    def refuse_too_much(self) -> None:
        """Refuse a plan that would cost too much.

        Raises:
            BudgetRefusal: with the numbers and what fits.
        """
        if self.problems():
            raise BudgetRefusal(
                f"this plan costs more than was allowed: {'; '.join(self.problems())}",
                seen=self.forecast.line(),
                where=f"grid {self.settings.grid} on {self.platform.name}",
                do=f"Raise the cap in `money`, or compute {len(self.proposal.cells)} of "
                f"{counted(self.forecast.cells, 'cell')}: `quantgrid budget` says which.",
            )

    def _longest_usd(self) -> float:
        return self.forecast.longest_s / 3600 / self.platform.at_once * self.usd_per_hour

    # -- told -------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """All of it as JSON."""
        device = self.device
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "grid": self.settings.grid,
            "platform": self.platform.name,
            "price": asdict(device) | {"sustained": None} if device else None,
            "at_once": self.platform.at_once,
            "forecast": self.forecast._asdict(),
            "guessed": list(self.guessed),
            "spent_usd": self.spent_usd,
            "money": asdict(self.money),
            "problems": self.problems(),
            "proposal": {
                "cells": list(self.proposal.cells),
                "left_out": list(self.proposal.left_out),
                "select": self.select,
            },
        }

    def told(self) -> str:
        """All of it for a person."""
        lines = [self._headline(), *self._guesses(), *self._days()]
        lines += [f"too much: {each}" for each in self.problems()]
        if self.proposal.left_out:
            lines += self._proposed()
        elif not self.problems():
            lines += ["all of it fits"] if self.device else []
        return "\n".join(lines)

    def _headline(self) -> str:
        said, device = self.forecast, self.device
        at = (
            f"at ${device.usd_per_hour:,.2f} an hour ({device.source}, {device.date})"
            if device
            else "where nothing is paid"
        )
        return (
            f"{said.line()}: {counted(said.cells, 'cell')} by {counted(said.jobs, 'job')} in "
            f"{counted(said.links, 'link')}, "
            f"the longest {said.longest_s:,.0f} s, on {self.platform.name} {at}"
        )

    def _guesses(self) -> list[str]:
        names = ", ".join(self.guessed)
        return [f"guessed, not measured: {names}; `snakemake screens` measures"] * bool(names)

    def _days(self) -> list[str]:
        cap = self.money.max_usd_per_day
        days = math.ceil(self.forecast.usd / cap) if cap else 0
        return [f"with ${cap:,.2f} a day it takes {days} days at least"] if days > 1 else []

    def _proposed(self) -> list[str]:
        cells, left = self.proposal.cells, self.proposal.left_out
        usd = total(self.proposal.jobs, self.platform, self.usd_per_hour).usd
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        return [
            f"fits: {len(cells)} of {counted(len(cells) + len(left), 'cell')} for ${usd:,.2f}",
            f"left out: {', '.join(left[:_NAMED])}{more}",
            f'--config select="{self.select}"' if cells else "not one cell fits",
        ]


def of(settings: Settings, platform: Platform, plan: Plan, root: Path) -> Budget:
    """The budget of a plan; `root` is the working copy, where the numbers of probes are."""
    device = load_device(settings.root, platform.bills_as) if platform.bills_as else None
    rates, guessed = probes.rates_of(settings, platform, plan, root)
    found = forecast.jobs(plan, rates)
    unknown = forecast.num_unknown(plan)
    spent_usd = spent_of(settings, root) if device else 0.0
    price = device.usd_per_hour if device else 0.0
    left_usd = max(settings.money.max_usd_per_grid - spent_usd, 0.0)  # a cap may come too late
    seconds = left_usd / price * 3600 * platform.at_once if price else math.inf
    proposal = propose(found, seconds)
    return Budget(
        settings=settings,
        platform=platform,
        device=device,
        forecast=total(found, platform, price, unknown),
        guessed=tuple(guessed),
        spent_usd=spent_usd,
        proposal=proposal,
        select=_select(settings, plan, proposal),
    )


def total(
    found: Mapping[str, Work], platform: Platform, usd_per_hour: float, unknown: int = 0
) -> Forecast:
    """What jobs cost together on a platform."""
    return forecast.total(
        found,
        usd_per_hour=usd_per_hour,
        at_once=platform.at_once,
        cap_s=platform.cap_s,
        unknown=unknown,
    )


def spent_of(settings: Settings, root: Path) -> float:
    """Dollars that the grid did cost already, by the register of its archive."""
    books = Register(open_store(settings.archive, root)).books()
    return spent(books, settings.grid) / MICROUSD


def _select(settings: Settings, plan: Plan, proposal: Proposal) -> str:
    """An expression for what fits, with all wanted cells that need no making."""
    left = set(proposal.left_out)
    text = expression(plan.wanted, [cell.id for cell in plan.wanted if cell.id not in left])
    own = settings.select.strip()
    return f"({own}) and ({text})" if own and text else text or own
