"""What a plan will still cost: pure, from its jobs and how fast each kind of work goes.

The jobs of a plan are trees: a milestone goes on from the one before it, a base branches off its
milestone, and each form needs its base.  So what cells share is counted once.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from quantgrid import layout
from quantgrid.costs import FORWARD_PART, solver_flops, training_flops
from quantgrid.devices import Device
from quantgrid.forms import METHODS
from quantgrid.lineage import Lineage
from quantgrid.plan import Plan, State
from quantgrid.spec import BASE, Cell
from quantgrid.wording import counted


class Rate(NamedTuple):
    """How long each kind of work of one model and method takes, in seconds.

    Args:
        start_s: Each job: interpreter, imports, opening of the corpus, deposit.
        step_s: A step of training.
        quantise_s: Making the quantised form after training; 0 where training makes it.
        sequence_s: A validation sequence, its base included.
        save_s: Keeping a checkpoint.
    """

    start_s: float
    step_s: float
    quantise_s: float
    sequence_s: float
    save_s: float = 0.0


Rates = Callable[[Cell], Rate]
"""The rate of the model and method of a cell."""


class Work(NamedTuple):
    """One job of a plan.

    Args:
        key: Its name among the jobs of the plan.
        parent: The job that comes before it; None when nothing has to.
        seconds: How long it takes.
        cell: The wanted cell that is there when it is done; None when it only serves others.
    """

    key: str
    parent: str | None
    seconds: float
    cell: str | None


class Forecast(NamedTuple):
    """The sum of a plan's jobs.

    Args:
        cells: Wanted cells that must be made.
        jobs: Jobs that make them and what they need.
        hours: Hours of a machine.
        usd: Dollars of them.
        links: Links of all resume chains.
        longest_s: Seconds of the longest job.
        unknown: Cells of people's own programs, whose time nobody knows before.
    """

    cells: int
    jobs: int
    hours: float
    usd: float
    links: int
    longest_s: float
    unknown: int

    def line(self) -> str:
        """For a person: hours and dollars."""
        unknown = f", and {counted(self.unknown, 'cell')} of own programs" if self.unknown else ""
        return f"forecast {self.hours:.2f} machine hours, ${self.usd:,.2f}{unknown}"


def guessed(device: Device) -> Rates:
    """Rates that nobody measured: operations over the expected speed of a device."""

    def rate(cell: Cell) -> Rate:
        model, form = cell.trunk.model, cell.form
        per_s = 1e12 * device.tflops(model.num_parameters)
        token_s = training_flops(model) / per_s
        calibration = form.calibration_sequences * model.context
        takes = "calibration_sequences" in METHODS[form.method].takes
        solved_s = FORWARD_PART * token_s * calibration + solver_flops(cell) / per_s
        return Rate(
            start_s=device.cell_s,
            step_s=token_s * model.tokens_per_step,
            quantise_s=solved_s if takes else 0.0,
            sequence_s=FORWARD_PART * token_s * model.context * (1 if form == BASE else 2),
        )

    return rate


def jobs(plan: Plan, rates: Rates) -> dict[str, Work]:
    """The jobs of a plan by key, each after its parent; own programs are not among them."""
    tree = _Tree(plan, rates, {})
    for cell in plan.wanted:
        if isinstance(cell, Cell) and plan.state(cell) in {State.MAKE, State.EVALUATE}:
            tree.add(cell)
    return tree.found


def total(
    found: Mapping[str, Work],
    *,
    usd_per_hour: float,
    at_once: int = 1,
    cap_s: float | None = None,
    unknown: int = 0,
) -> Forecast:
    """What jobs cost together.

    Args:
        found: The jobs.
        usd_per_hour: Price of a machine.
        at_once: Jobs that share a machine; their seconds were measured so.
        cap_s: Longest life of an attempt; None when nothing ends one.
        unknown: Cells that are not among the jobs.
    """
    seconds = [work.seconds for work in found.values()]
    hours = math.fsum(seconds) / 3600 / at_once
    return Forecast(
        cells=sum(work.cell is not None for work in found.values()),
        jobs=len(seconds),
        hours=hours,
        usd=hours * usd_per_hour,
        links=sum(max(math.ceil(each / cap_s), 1) if cap_s else 1 for each in seconds),
        longest_s=max(seconds, default=0.0),
        unknown=unknown,
    )


def num_unknown(plan: Plan) -> int:
    """Cells of people's own programs that must be made."""
    makes = {State.MAKE, State.EVALUATE}
    return sum(not isinstance(cell, Cell) and plan.state(cell) in makes for cell in plan.wanted)


class _Tree(NamedTuple):
    plan: Plan
    rates: Rates
    found: dict[str, Work]

    @property
    def lineage(self) -> Lineage:
        return self.plan.lineage

    def add(self, cell: Cell) -> None:
        """Add the job of a wanted cell and all that it needs."""
        base = self._base(cell)
        if cell.form == BASE and base is not None:
            self.found[base] = self.found[base]._replace(cell=cell.id)
            return
        rate = self.rates(cell)
        makes_s, parent = 0.0, base
        if self.plan.state(cell) is State.MAKE:
            makes_s = rate.quantise_s + rate.step_s * self._steps(cell)
            parent = base or self._milestone(cell)
        self._put(cell.id, parent, rate, makes_s + _evaluation_s(cell, rate), cell.id)

    def _steps(self, cell: Cell) -> int:
        """Steps that a form is trained for."""
        if not METHODS[cell.form.method].trains:
            return 0
        steps = cell.cooldown
        return steps.num_steps if cell.form.start == "scratch" else steps.cooldown_steps

    def _base(self, cell: Cell) -> str | None:
        """The job of a cell's base, None when the archive has its weights."""
        if self.lineage.bases[cell.base].record in self.plan.index:
            return None
        plain = self.lineage.asked[f"{cell.base}/{BASE.id}"]
        if plain.id not in self.found:
            rate = self.rates(plain)
            seconds = rate.step_s * plain.cooldown.cooldown_steps + _evaluation_s(plain, rate)
            self._put(plain.id, self._milestone(plain), rate, seconds, None)
        return plain.id

    def _milestone(self, cell: Cell) -> str | None:
        """The job of the milestone that a cell branches off, None when nothing needs it."""
        needs = cell.form == BASE or (
            METHODS[cell.form.method].trains and cell.form.start != "scratch"
        )
        return self._trained(cell, cell.milestone) if needs else None

    def _trained(self, cell: Cell, milestone: int) -> str | None:
        stage = self.lineage.milestones[cell.trunk.id, milestone]
        if stage.record in self.plan.index:
            return None
        if stage.record not in self.found:
            before = int(layout.owner_of(stage.resume[0]).rpartition("/")[2]) if stage.resume else 0
            parent = self._trained(cell, before) if before else None
            rate = self.rates(self.lineage.asked[f"{cell.base}/{BASE.id}"])
            steps = (milestone - before) / cell.trunk.model.tokens_per_step
            self._put(stage.record, parent, rate, rate.step_s * steps, None)
        return stage.record

    def _put(
        self, key: str, parent: str | None, rate: Rate, seconds: float, cell: str | None
    ) -> None:
        self.found[key] = Work(key, parent, rate.start_s + seconds + rate.save_s, cell)


def _evaluation_s(cell: Cell, rate: Rate) -> float:
    return rate.sequence_s * cell.evaluation.sequences


def with_needs(found: Mapping[str, Work], keys: Iterable[str]) -> dict[str, Work]:
    """Some jobs with all that they need."""
    wanted: set[str] = set()
    for key in keys:
        above: str | None = key
        while above is not None and above not in wanted:
            wanted.add(above)
            above = found[above].parent
    return {key: work for key, work in found.items() if key in wanted}
