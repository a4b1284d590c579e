"""What was, is and will be done in one call of Snakemake, counted from its events."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from quantgrid.terminal import STOPPED, Grid, Job, Overview, Reading

CELL_RULE = "fold"
"""The rule that brings in one finished cell a job."""

_INSTANT = frozenset({CELL_RULE, "all", "table", "report"})
"""Rules whose jobs take no time worth telling beside training."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed and did not succeed later."""

    job: Job
    words: str

    @property
    def word(self) -> str:
        """Whether it failed, or was stopped and goes on later."""
        return "stop" if self.words.startswith(STOPPED) else "fail"


class Tally:
    """Counts of one call; `stats` is Snakemake's table of jobs to come, rule -> number."""

    def __init__(self, stats: Mapping[str, int], grid: Grid | None, now_s: float) -> None:
        self._to_come = {rule: number for rule, number in stats.items() if rule != "total"}
        self.total = sum(self._to_come.values())
        self._grid = grid or Grid("grid", self._to_come.get(CELL_RULE, 0), 0)
        self._started_s = now_s
        self._spent_s: dict[str, list[float]] = defaultdict(list)
        self._over: Counter[str] = Counter()
        self.done = 0
        self.is_stopping = False
        self.running: dict[int, Job] = {}
        self.failures: dict[int, Failure] = {}

    @property
    def counts(self) -> tuple[int, int]:
        """Jobs done and jobs in all."""
        return self.done, self.total

    @property
    def cells(self) -> tuple[int, int]:
        """Cells of the grid that are done and cells in all."""
        folded = len(self._spent_s.get(CELL_RULE, ()))
        return min(self._grid.current + folded, self._grid.cells), self._grid.cells

    def start(self, job: Job) -> None:
        """A job starts, perhaps again."""
        failed = self.failures.pop(job.id, None)
        if failed is not None:
            self._over[failed.job.rule] -= 1
        self.running[job.id] = job

    def hear(self, job_id: int, reading: Reading) -> None:
        """A running job said how far it is."""
        self.running[job_id] = replace(self.running[job_id], reading=reading)

    def finish(self, job_id: int, now_s: float) -> Job | None:
        """A job is done; None when nobody saw it start."""
        self.done += 1
        job = self.running.pop(job_id, None)
        if job is not None:
            self._over[job.rule] += 1
            self._spent_s[job.rule].append(now_s - job.started_s)
        return job

    def fail(self, job_id: int, words: str) -> Job | None:
        """A job failed; None when nobody saw it start."""
        job = self.running.pop(job_id, None)
        if job is not None:
            self._over[job.rule] += 1
            self.failures[job_id] = Failure(job, words)
        return job

    def overview(self, now_s: float) -> Overview:
        """How far the whole is."""
        cells_done, cells = self.cells
        return Overview(
            grid=self._grid.name,
            cells_done=cells_done,
            cells=cells,
            jobs_done=self.done,
            jobs=self.total,
            running=len(self.running),
            failed=sum(each.word == "fail" for each in self.failures.values()),
            stopped=sum(each.word == "stop" for each in self.failures.values()),
            elapsed_s=now_s - self._started_s,
            left_s=self._find_left_s(now_s) if self.running else None,
        )

    def _find_left_s(self, now_s: float) -> float | None:
        """Mean time of each rule times its jobs to come, over the jobs that ran at once so far.

        None while a rule that takes time has not finished a job: then nobody can tell.  None as
        well when only jobs are left that take no time worth telling.
        """
        work_s = 0.0
        for rule, number in self._to_come.items():
            spent_s = self._spent_s.get(rule)
            left = number - self._over[rule]
            if rule in _INSTANT or left <= 0:
                continue
            if not spent_s:
                return None
            mean_s = sum(spent_s) / len(spent_s)
            ages_s = [now_s - job.started_s for job in self.running.values() if job.rule == rule]
            work_s += left * mean_s - sum(min(age_s, mean_s) for age_s in ages_s)
        return work_s / self._at_once(now_s) if work_s else None

    def _at_once(self, now_s: float) -> float:
        busy_s = sum(map(sum, self._spent_s.values()))
        busy_s += sum(now_s - job.started_s for job in self.running.values())
        return max(busy_s / max(now_s - self._started_s, 1e-9), 1.0)
