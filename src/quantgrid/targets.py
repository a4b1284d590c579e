"""What a call of Snakemake is for: results of cells, the table, the page; and what it looks at.

The plan has read every result and compared its fingerprint.  Snakemake would make a job of each,
look at times and metadata, and come to the same end: a third of the plan of a finished grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.lineage import Lineage
from quantgrid.plan import Plan, State
from quantgrid.select import AnyCell
from quantgrid.wanted import is_page_of, is_table_of, local_verdicts, publish_wanted

_TRIGGERS = frozenset({"MTIME", "PARAMS"})
"""Those of the profiles: with any other one Snakemake may think otherwise of a current result."""


@dataclass(frozen=True, repr=False)
class Targets:
    """Input functions of the rules that show a whole grid; no plan in inner processes.

    Args:
        root: The working copy.
        name: Name of the grid.
        lineage: What each cell is made from.
        plan: The state of each cell.
        snakemake: What rules know as `workflow`.
        ancient: Marks a file whose time does not count (`snakemake.io.ancient`).
    """

    root: Path
    name: str
    lineage: Lineage
    plan: Plan | None
    snakemake: Any
    ancient: Callable[[str], str]

    def asked(self, _: Any = None) -> list[str]:
        """Results of the selected cells; table and page when no cell was left out.

        A table that is not there needs every result itself, and naming them twice costs a twentieth
        of a plan; one that is there does not bring back a result that is gone.
        """
        if not self.plan:
            return []
        whole = len(self.plan.wanted) == len(self.lineage.grid.every)
        by_table = whole and not self._table.exists() and may_leave_out(self.snakemake)
        named = () if by_table else self.plan.wanted
        wanted = [result(cell) for cell in named if self._is_looked_at(cell)]
        pages = [pattern.format(grid=self.name) for pattern in (layout.TABLE, layout.PAGE)]
        return wanted + (pages if whole else [])

    def wanted_file(self, _: Any = None) -> str:
        """The file that tells the table which fingerprint each row must have."""
        relative = layout.WANTED.format(grid=self.name)
        if self.plan:
            shows = (self.fingerprints, self._table, self._verdicts)
            publish_wanted(self.root / relative, self.name, *shows)
        return self._aged(relative, is_shown=self._is_table_current)

    def table_cells(self, _: Any = None) -> list[str]:
        """The results that the table shows."""
        looked_at = [cell for cell in self.lineage.grid.every if self._is_looked_at(cell)]
        return [self._aged(result(cell), is_shown=self._is_table_current) for cell in looked_at]

    def page_tables(self, _: Any = None) -> list[str]:
        """The table and the laws that the page shows."""
        page, laws = (self.root / p.format(grid=self.name) for p in (layout.PAGE, layout.LAWS))
        is_shown = self._is_table_current and is_page_of(page, self._table, laws)
        files = [pattern.format(grid=self.name) for pattern in (layout.TABLE, layout.LAWS)]
        return [self._aged(file, is_shown=is_shown) for file in files]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Cell -> fingerprint that its result must have."""
        made = self.lineage.cells
        return {cell.id: made[cell.id].fingerprint for cell in self.lineage.grid.every}

    # -- inside -----------------------------------------------------------------------------------

    def _aged(self, path: str, *, is_shown: bool) -> str:
        """A file whose time counts unless what is made from it says that it shows this content.

        A copy gives files times in any order; while jobs change an input, its time always counts.
        """
        return self.ancient(path) if is_shown else path

    def _is_looked_at(self, cell: AnyCell) -> bool:
        """Whether Snakemake shall look at a result, or the plan alone."""
        left_out = self.plan and self._leaves_out and self.plan.state(cell) is State.CURRENT
        return not left_out

    @cached_property
    def _leaves_out(self) -> bool:
        """Whether current results are left out: where the table shows them, and in a dry run.

        A table that is about to be made has all of them as inputs, and Snakemake keeps which they
        were; one that shows something else may be older than any of them.
        """
        if not may_leave_out(self.snakemake):
            return False
        is_other = self._is_whole and self._table.exists() and not self._is_table_current
        return self._is_table_current or (self.snakemake.dryrun and not is_other)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether every result of the grid is current."""
        plan, every = self.plan, self.lineage.grid.every
        return plan is not None and all(plan.state(cell) is State.CURRENT for cell in every)

    @cached_property
    def _is_table_current(self) -> bool:
        """Whether no cell waits for a job and the table shows just the results that are here."""
        if not self._is_whole:
            return False
        return is_table_of(self._table, self.fingerprints, self._verdicts)

    @cached_property
    def _verdicts(self) -> dict[str, str]:
        return local_verdicts(self.root, self.fingerprints)

    @property
    def _table(self) -> Path:
        return self.root / layout.TABLE.format(grid=self.name)


def result(cell: AnyCell) -> str:
    """The result file of a cell."""
    return layout.RESULT.format(base=cell.base, variant=cell.variant)


def may_leave_out(snakemake: Any) -> bool:
    """Whether a call plans or runs what is missing, and nothing else.

    Pictures, summaries, reports and deletions want every job there is, and so does who forces jobs,
    cuts the plan or touches files.

    Args:
        snakemake: What rules know as `workflow`, while it builds its graph.
    """
    how = snakemake.dag_settings
    wants_all = (how.forceall, how.forcetargets, how.forcerun, how.until, how.omit_from, how.batch)
    triggers = {each.name for each in snakemake.rerun_triggers}
    runs = snakemake.executor_plugin is not None and not snakemake.touch
    return bool(runs and not any(wants_all) and triggers <= _TRIGGERS)
