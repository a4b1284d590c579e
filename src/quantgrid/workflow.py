"""The adapter to Snakemake: input functions, params and targets as methods of one object.

The plan is made in the main process only.  The inner processes that Snakemake starts on other
machines parse the same Snakefile without index and network: every input function returns [] there,
and the wildcards carry the fingerprints, so that the job exists all the same.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from quantgrid import atomic, layout, noticing, pace, room, terminal, warm_server
from quantgrid.archive import opened, waiting
from quantgrid.clock import SystemClock
from quantgrid.controller import Controller, leave_before_the_start
from quantgrid.errors import ConfigRefusal, QuantgridError
from quantgrid.forms import METHODS
from quantgrid.job import Stage
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.lines import Lines
from quantgrid.load import Platform, Settings, load_grid, load_platform, load_settings
from quantgrid.pace import asked
from quantgrid.place import foreign_profiles, refuse_early, refuse_partial_files
from quantgrid.plan import Plan, State, refuse_unwritten
from quantgrid.planning import make_plan, told
from quantgrid.rental import reach
from quantgrid.rental.facts import facts_of
from quantgrid.screens import Screens
from quantgrid.select import AnyCell
from quantgrid.spec import BASE
from quantgrid.targets import Targets, result
from quantgrid.wording import meant, profiles

Wildcards = Any


@dataclass(frozen=True, repr=False)
class Workflow:
    """What the rules ask; `plan` is None in inner processes.

    Without a telling repr: Snakemake searches it for wildcards, and 1,000 cells make 10 megabytes.
    """

    code: Path
    root: Path
    settings: Settings
    platform: Platform
    lineage: Lineage
    plan: Plan | None
    snakemake: Any

    @staticmethod
    def check(snakemake: Any) -> None:
        """Before the configuration is read: refuse what Snakemake would tell badly or not at all.

        Args:
            snakemake: The object that the rules know as `workflow`.
        """
        if snakemake.is_main_process:
            leave_before_the_start()
        try:
            refuse_early(snakemake)
        except QuantgridError as error:
            stop(error)

    @classmethod
    def open(cls, config: Mapping[str, Any], snakemake: Any) -> "Workflow":
        """Load configuration and grid, look at archive and results, print the plan line.

        Args:
            config: Snakemake's config with everything that overrides the file.
            snakemake: The object that the rules know as `workflow`.
        """
        try:
            return cls._open(config, snakemake, Path.cwd())
        except QuantgridError as error:
            stop(error)

    @classmethod
    def _open(cls, config: Mapping[str, Any], snakemake: Any, root: Path) -> "Workflow":
        code, is_main = Path(snakemake.basedir).resolve(), snakemake.is_main_process
        pace.collect_rarely()
        pace.compare_params_as_texts()
        pace.spare_the_graph()
        settings = load_settings(code, config, validate=_validate)
        grid = load_grid(code, settings.grid, validate=_validate)
        lineage = trace(grid, Science(code))
        plan = make_plan(settings, lineage, root) if is_main else None
        platform = load_platform(code, settings.platform, validate=_validate)
        if plan:
            said = [told(plan, root / settings.volume, platform), *_of_profiles(code)]
            print("\n".join(said), file=sys.stderr, flush=True)
            terminal.announce(terminal.Grid(grid.name, len(plan.wanted), plan.num_current))
        if platform.rented is not None:
            reach.refuse_unreachable(facts_of(platform), settings.archive)
        made = cls(code, root, settings, platform, lineage, plan, snakemake)
        made.screens.say_forecast()
        return made

    # -- commands ---------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> Lines:
        """The command lines of the rules."""
        return Lines(self.code, self.root, self.settings, self.platform)

    @cached_property
    def quantgrid(self) -> str:
        """The command `quantgrid` on this machine."""
        return self.lines.here

    @cached_property
    def compute(self) -> str:
        """The command `quantgrid` where the rules that compute run."""
        return self.lines.there

    @cached_property
    def places(self) -> str:
        """Options that name the code and the volume there."""
        return self.lines.places

    @cached_property
    def run(self) -> str:
        """The runner with everything that is not the job's own."""
        return " ".join([self.lines.run, *self.screens.run_options])

    @cached_property
    def screens(self) -> Screens:
        """What is looked at before money is spent."""
        return Screens(self.code, self.root, self.settings, self.platform, self.lineage, self.plan)

    # -- targets ----------------------------------------------------------------------------------

    @property
    def grid(self) -> str:
        """Name of the grid."""
        return self.settings.grid

    @cached_property
    def targets(self) -> Targets:
        """What a call is for."""
        from snakemake.io import ancient

        shown = (self.root, self.grid, self.lineage, self.plan, self.snakemake)
        return Targets(*shown, ancient)

    # -- corpus -----------------------------------------------------------------------------------

    @property
    def corpus(self) -> dict[str, str]:
        """Wildcards of the corpus of the grid; none when it has no corpus."""
        recipe = self.lineage.grid.corpus
        return {"corpus": recipe.name, "fp": recipe.digest} if recipe else {}

    @cached_property
    def sentinel(self) -> list[str]:
        """The sentinel of the corpus of the grid: training and evaluation start after the seal."""
        return [layout.SENTINEL.format(**self.corpus)] if self.corpus else []

    # -- cells ------------------------------------------------------------------------------------

    @staticmethod
    def variants(rule: str) -> str:
        """The variants that a rule makes, as a pattern for its wildcard."""
        if rule == "base":
            return BASE.id
        names = [name for name, method in METHODS.items() if method.trains == (rule == "qat")]
        return f"(?:{'|'.join(name for name in names if name != BASE.method)})-[^/.]+"

    @asked
    def milestone_input(self, wildcards: Wildcards) -> list[str]:
        """The newest earlier milestone of the trunk, unless the archive holds it."""
        stage = self.lineage.milestones[wildcards.trunk, int(wildcards.milestone)]
        self._refuse_other(stage, f"{wildcards.trunk}/{wildcards.milestone}", wildcards)
        return self._inputs(stage.resume[:1])

    @asked
    def cell_input(self, wildcards: Wildcards) -> list[str]:
        """What a cell is made from and compared with, unless the archive holds it."""
        cell = self._cell(wildcards)
        self._refuse_other(self.lineage.cells[cell.id], cell.id, wildcards)
        if cell.id in self.lineage.own:
            return (
                self._inputs([])
                if self.lineage.own[cell.id].script.corpus
                else self.screens.clearance
            )
        weights = self.lineage.weights[cell.id]
        parents = {*weights.parents.values(), self.lineage.bases[cell.base].record}
        return self._inputs(sorted(parents - {weights.record}))

    @asked
    def evaluation_input(self, wildcards: Wildcards) -> list[str]:
        """The base that an evaluation compares with, unless the archive holds it."""
        cell = self._cell(wildcards)
        self._refuse_other(self.lineage.cells[cell.id], cell.id, wildcards)
        return self._inputs([self.lineage.bases[cell.base].record])

    def _inputs(self, parents: Iterable[str]) -> list[str]:
        """What a job waits for: a clearance where one is needed, and its parents or the sentinel.

        A parent that must be made waits for the sentinel itself; naming it again for each of a
        thousand cells costs a tenth of a plan (bench/plan.py).
        """
        if not self.plan:
            return []
        made = [path for record in parents for path in self._made(record)]
        return self.screens.clearance + (made or self.sentinel)

    @asked
    def fold_input(self, wildcards: Wildcards) -> list[str]:
        """The receipt of a cell that must be made; a fresh file when an old result is replaced."""
        if not self.plan:
            return []
        cell = self._cell(wildcards)
        stage = self.lineage.cells[cell.id]
        names = {"base": cell.base, "variant": cell.variant, "fp": stage.fingerprint}
        state = self.plan.state(cell)
        if state is State.MAKE:
            return [layout.CELL_RECEIPT.format(**names)]
        if state is State.EVALUATE:
            return [layout.EVALUATION_RECEIPT.format(**names)]
        if self.plan.is_folded_over(cell):
            return [self._fresh(layout.RESTORE.format(**names), stage.record)]
        return []

    @asked
    def milestone_job(self, wildcards: Wildcards) -> str:
        """The job that trains a trunk up to a milestone."""
        trunk = self.lineage.trunks[wildcards.trunk]
        return self.lineage.milestone(trunk, int(wildcards.milestone)).to_json()

    @asked
    def cell_job(self, wildcards: Wildcards) -> str:
        """The job that makes the weights of a cell and evaluates them."""
        return self.lineage.job(self._cell(wildcards)).to_json()

    @asked
    def evaluation_job(self, wildcards: Wildcards) -> str:
        """The job that evaluates a cell whose weights exist."""
        return self.lineage.evaluation(self._cell(wildcards)).to_json()

    @asked
    def record(self, wildcards: Wildcards) -> str:
        """The key of the record of a cell."""
        return self.lineage.cells[self._cell(wildcards).id].record

    # -- the controller ---------------------------------------------------------------------------

    def start(self, snakemake: Any) -> None:
        """Before the first job (`snakemake`: what rules know as `workflow`): all is fit for it."""
        assert self.plan is not None  # noqa: S101 - hooks run in the main process only
        try:
            refuse_partial_files(snakemake.execution_settings)
            refuse_unwritten(self.plan)
            self.screens.refuse_dear()
            archive = opened.of(self.settings, self.root)
            if self.platform.rented is None:
                volume = self.root / self.settings.volume
                room.prove(self.plan, self.platform, volume, archive.store)
            else:
                reach.connect(facts_of(self.platform))
            Controller(self.root, archive.store, grace_s=self.platform.own_grace_s).start()
            noticing.publish_place(self.root, self.code, archive.store.address)
            waiting.start(self.root, archive, SystemClock())
            if self.platform.warm and self.lineage.grid.cells and self.plan.num_to_make > 1:
                warm_server.start()
            if snakemake.local_exec:
                pace.look_only_when_needed(snakemake.scheduler)
        except QuantgridError as error:
            stop(error)

    def end(self, *, is_done: bool) -> None:
        """After the last job: a person reads, and who is named by `notify` hears, how it ended."""
        from quantgrid import summary  # a plan alone does not pay for it

        store = opened.of(self.settings, self.root).store
        if self.plan:
            is_rented = self.platform.rented is not None
            summary.tell(self.plan, self.root, store, is_done=is_done, is_rented=is_rented)
        if is_done and self.plan:  # of a part, such as `screens`, nothing is told
            if all((self.root / result(cell)).exists() for cell in self.plan.wanted):
                wanted = {cell.id: self.targets.fingerprints[cell.id] for cell in self.plan.wanted}
                noticing.of_grid(self.grid, wanted, self.code, store)
        elif self.plan:
            noticing.of_failures(self.grid, self.root, self.code, store)

    # -- inside -----------------------------------------------------------------------------------

    def _cell(self, wildcards: Wildcards) -> AnyCell:
        owner = f"{wildcards.base}/{wildcards.variant}"
        if owner not in self.lineage.asked and owner not in self.lineage.own:
            stop(
                ConfigRefusal(
                    f"grid {self.grid} has no cell {owner}{meant(owner, self.lineage.cells)}",
                    do=f"`quantgrid cells --grid {self.grid}` lists its cells.",
                )
            )
        return self.lineage.asked.get(owner) or self.lineage.own[owner]

    def _made(self, record: str) -> list[str]:
        """The receipt of a record, or nothing when the archive holds it."""
        if not self.plan or record in self.plan.index:
            return []
        kind, _, rest = record.partition("/")
        owner, fingerprint, _ = rest.rsplit("/", 2)
        first, second = owner.split("/")
        if kind == "trunks":
            names = {"trunk": first, "milestone": second, "fp": fingerprint}
            return [layout.TRUNK_RECEIPT.format(**names)]
        cell = self.lineage.cells[owner]
        return [layout.CELL_RECEIPT.format(base=first, variant=second, fp=cell.fingerprint)]

    def _refuse_other(self, stage: Stage, owner: str, wildcards: Wildcards) -> None:
        """Looked at where inputs are asked for: a plan alone asks for no job."""
        if stage.fingerprint != wildcards.fp:
            stop(
                ConfigRefusal(
                    f"{owner} is asked for under another fingerprint than this source has",
                    expected=stage.fingerprint,
                    seen=wildcards.fp,
                    do="Ask for the result file of the cell instead of its receipt.",
                )
            )

    def _fresh(self, relative: str, record: str) -> str:
        atomic.publish_json(self.root / relative, {"record": record})
        return relative


def stop(error: QuantgridError) -> NoReturn:
    """Tell a person why Snakemake stops here, without a traceback, and with the right exit code."""
    print(error, file=sys.stderr, flush=True)
    raise SystemExit(error.exit_code)


def _of_profiles(code: Path) -> list[str]:
    """What a person should know of the profiles of this call, found where Snakemake finds them."""
    from snakemake.cli import get_profile_dir

    usual = os.environ.get("SNAKEMAKE_PROFILE")
    typed = profiles(sys.argv) or ([usual] if usual else [])
    found = [(each, where[0]) for each in typed if (where := get_profile_dir(each))]
    return foreign_profiles(found, code)


def _validate(data: Any, schema: str) -> None:
    from snakemake.utils import validate

    with pace.yaml_in_c():
        validate(data, schema)
