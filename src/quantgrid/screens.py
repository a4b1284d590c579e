"""The screens of a plan: which files say what was looked at, and what makes each of them void.

compile -> smoke -> probe -> budget -> clearance.  Keys are made of content: a comment voids
nothing, and a change of the code that a screen ran voids that screen.
"""

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from quantgrid import layout, probes
from quantgrid.devices import load_device
from quantgrid.fingerprint import digest
from quantgrid.forecast import jobs, num_unknown, total
from quantgrid.forms import METHODS
from quantgrid.lineage import Lineage
from quantgrid.plan import Plan, State
from quantgrid.probes import Probe
from quantgrid.science import science_digest
from quantgrid.select import AnyCell
from quantgrid.settings import Platform, Settings
from quantgrid.spec import BASE, Cell, Form, canonical_spec

PREPARE = "prepare"
_VERSION = 2
"""Of what budget and clearance say."""


def stages(lineage: Lineage, cells: Iterable[AnyCell]) -> list[str]:
    """The scripts that some cells of a grid run, and what they are made from."""
    names = {PREPARE} if lineage.grid.corpus else set()
    for cell in cells:
        names.add(lineage.cells[cell.id].name)
        if isinstance(cell, Cell):
            names |= {lineage.weights[cell.id].name, lineage.bases[cell.base].name}
            names.add(lineage.milestones[cell.trunk.id, cell.milestone].name)
    return sorted(names)


def smoke_form(forms: list[Form]) -> Form:
    """The form that a smoke makes: the first that is quantised after training, else the first."""
    after = [form for form in forms if form != BASE and not METHODS[form.method].trains]
    trained = [form for form in forms if form != BASE]
    return [*after, *trained, BASE][0]


@dataclass(frozen=True, repr=False)
class Screens:
    """What the rules of the screens ask; the fields are those of the `Workflow`."""

    code: Path
    root: Path
    settings: Settings
    platform: Platform
    lineage: Lineage
    plan: Plan | None

    # -- files ------------------------------------------------------------------------------------

    @cached_property
    def clearance(self) -> list[str]:
        """The clearance that everything paid waits for; nothing where nothing is paid."""
        return [self._clearance] if self.platform.is_paid and self._cells else []

    def prepare_input(self, wildcards: Any) -> list[str]:
        """The clearance; what was prepared before waits for no newer one."""
        return self._unless_made(layout.PREPARED.format(**wildcards))

    def seal_input(self, wildcards: Any) -> list[str]:
        """The same for the seal, which looks from a machine of its own."""
        return self._unless_made(layout.SENTINEL.format(**wildcards))

    def _unless_made(self, path: str) -> list[str]:
        return [] if (self.root / path).exists() else self.clearance

    def targets(self, _: object = None) -> list[str]:
        """What `snakemake screens` makes, on any platform."""
        if not self.plan:
            return []
        return [self._clearance] if self._cells else self.first

    @cached_property
    def first(self) -> list[str]:
        """Compile and smoke, which cost nothing."""
        if not self.plan:
            return []
        return [
            layout.COMPILED.format(grid=self.settings.grid, fp=self._compile_key),
            *([layout.SMOKED.format(fp=self._smoke_key)] if self.lineage.grid.cells else []),
        ]

    def probe_input(self, _: object = None) -> list[str]:
        """Nothing is measured that would not run."""
        return self.first

    def budget_input(self, _: object = None) -> list[str]:
        """The probes of all that is made."""
        return [probe.receipt for probe in self.probes]

    def clearance_input(self, _: object = None) -> list[str]:
        """Everything that was looked at; the budget last."""
        if not self.plan:
            return []
        budget = layout.BUDGET.format(grid=self.settings.grid, fp=self._budget_key)
        return [*self.first, *self.budget_input(), budget]

    @cached_property
    def probes(self) -> list[Probe]:
        """What has to be measured."""
        if not self.plan:
            return []
        return list(probes.needed(self.plan, self.platform, self.code).values())

    @property
    def select(self) -> str:
        """The selection, as an option quoted for a shell; it is part of what is looked at."""
        return shlex.quote(f"--select={self.settings.select}")

    @property
    def run_options(self) -> list[str]:
        """What tells the runner that it must not start without a clearance."""
        return [f"--clearance {shlex.quote(path)}" for path in self.clearance]

    @property
    def probe_resources(self) -> dict[str, float]:
        """What a probe may take of a rented machine."""
        if not self.platform.is_paid:
            return {}
        device = load_device(self.code, str(self.platform.bills_as))
        usd = probes.most_usd(self.platform, device.usd_per_hour)
        return {"max_usd": round(usd, 4), "runtime": round(probes.CAP_S / 60)}

    @property
    def budget_options(self) -> str:
        """What the budget must know of this call, quoted for a shell."""
        settings = self.settings
        words = {
            "root": str(self.code),
            "grid": settings.grid,
            "select": settings.select,
            "platform": settings.platform,
            "archive": settings.archive,
            "archive-id": settings.archive_id,
            "volume": settings.volume,
            "money": json.dumps(asdict(settings.money)),
        }
        also = [f"--also={address}" for address in settings.archives]
        return shlex.join([*(f"--{name}={value}" for name, value in words.items()), *also])

    # -- before the first job ---------------------------------------------------------------------

    def say_forecast(self) -> None:
        """Tell hours and dollars of the plan, where it costs money; guesses are called so."""
        if not (self.plan and self.clearance):
            return
        device = load_device(self.code, str(self.platform.bills_as))
        rates, guessed = probes.rates_of(self.settings, self.platform, self.plan, self.root)
        said = total(
            jobs(self.plan, rates),
            usd_per_hour=device.usd_per_hour,
            at_once=self.platform.at_once,
            cap_s=self.platform.cap_s,
            unknown=num_unknown(self.plan),
        )
        how = "a guess: not measured yet" if guessed else "measured"
        told = f"{said.line()} on {self.platform.name} ({how}; price of {device.date})"
        print(told, file=sys.stderr, flush=True)

    def refuse_dear(self) -> None:
        """Refuse a plan whose probes, or which itself, may cost more than was allowed.

        What is not measured yet is refused by its clearance, before anything else is paid.

        Raises:
            BudgetRefusal: with the numbers.
        """
        if not (self.plan and self.clearance):
            return
        device = load_device(self.code, str(self.platform.bills_as))
        money = self.settings.money
        price = device.usd_per_hour
        probes.refuse_dear(self.probes, self.root, self.platform, price, money)
        if all((self.root / each.receipt).exists() for each in self.probes):
            from quantgrid import budget  # loads numpy, and most plans cost nothing

            budget.of(self.settings, self.platform, self.plan, self.root).refuse_too_much()

    # -- keys -------------------------------------------------------------------------------------

    @cached_property
    def _cells(self) -> list[AnyCell]:
        """What the plan makes."""
        makes = {State.MAKE, State.EVALUATE}
        plan = self.plan
        return [cell for cell in plan.wanted if plan.state(cell) in makes] if plan else []

    @cached_property
    def _clearance(self) -> str:
        key = digest(["clearance", _VERSION, *self.first, self._budget_key])
        return layout.CLEARANCE.format(grid=self.settings.grid, fp=key)

    @cached_property
    def _budget_key(self) -> str:
        device = self.platform.bills_as
        price = load_device(self.code, device).price() if device else None
        made = [self.lineage.cells[cell.id].fingerprint for cell in self._cells]
        money = self.settings.money.bounds()
        where = [self.platform.name, price, self.platform.at_once, self.platform.cap_s]
        return digest(["budget", _VERSION, where, list(money), self.budget_input(), made])

    @cached_property
    def _compile_key(self) -> str:
        cells = self.plan.wanted if self.plan else ()
        made = [cell for cell in cells if isinstance(cell, Cell)]
        own = {self.lineage.cells[cell.id].science for cell in cells if cell not in made}
        return digest(
            {
                "screen": "compile",
                "scripts": [self._closure(each) for each in stages(self.lineage, cells)],
                "forms": sorted({self.lineage.weights[cell.id].science for cell in made}),
                "models": _specs(cell.trunk.model for cell in made),
                "specs": _specs(cell.form for cell in made),
                "own": sorted(own),
            }
        )

    @cached_property
    def _smoke_key(self) -> str:
        form = smoke_form(self._forms)
        names = stages(self.lineage, self._with_form(form))
        sciences = [self._closure(each) for each in names if each != PREPARE]
        return digest(["smoke", canonical_spec(form), sciences, self._runner()])

    def _runner(self) -> str:
        """The digest of the runner with all that it imports; its version where it is installed."""
        path, sources = layout.runner_module(self.code), layout.source_root(self.code)
        if not path.is_file():
            return version("quantgrid")
        return science_digest(path, source_root=sources, package=None)

    @cached_property
    def _forms(self) -> list[Form]:
        cells = self.plan.wanted if self.plan else ()
        return list(dict.fromkeys(cell.form for cell in cells if isinstance(cell, Cell)))

    def _with_form(self, form: Form) -> Sequence[AnyCell]:
        cells = self.plan.wanted if self.plan else ()
        return [cell for cell in cells if isinstance(cell, Cell) and cell.form == form][:1]

    def _closure(self, stage: str) -> str:
        """The digest of a script with all of ours that it imports, the plumbing too."""
        path = layout.script(self.code, stage)
        return science_digest(path, source_root=layout.source_root(self.code), package=None)


def _specs(specs: Iterable[object]) -> list[object]:
    return sorted((canonical_spec(spec) for spec in set(specs)), key=str)
