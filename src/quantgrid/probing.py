"""The probe: what a model and a method take on this device, by the real scripts and runner.

The first process of all fills caches of files and is not counted.  Trainings of several lengths
tell the seconds of a step from those of a start; imports are what a process takes beside its
script.  As many run at once as will share the machine later, so that what they take from each
other is measured too.
"""

import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from quantgrid.forms import METHODS
from quantgrid.job import Job
from quantgrid.lineage import Lineage
from quantgrid.scratch import Scratch, scratch
from quantgrid.settings import Platform
from quantgrid.spec import BASE, Cell, Form

SCHEMA = "quantgrid/probe"
VERSION = 3
COLD = 10
"""Steps of the cell that only warms caches: the least that has a cool-down."""
LENGTHS = (12, 48, 192, 768, 2000)
"""Steps of the trainings that are timed; the longer ones only while the shorter say too little."""
LONG_S = 5.0
"""By so many seconds a training has to be longer than the shortest one."""
STARTS = 4.0
"""And by so many starts: one that takes a fifth more or less is then a twentieth of a step's time.
Both of the clock and of processors: on a machine that others use the clock alone is too early."""
ENOUGH_S = 30.0
"""By the clock: longer than this is not waited for, whatever processors did."""

Seconds = Mapping[str, float]
"""`wall_s` and `cpu_s` of something."""
NOTHING: Seconds = {"wall_s": 0.0, "cpu_s": 0.0}


def run(code: Path, where: Path, cell: Cell, platform: Platform) -> dict[str, Any]:
    """Measure the model and the method of a cell; what a probe's receipt says.

    Args:
        code: The folder of the Snakefile.
        where: A folder with room.
        cell: A cell of this kind; its form and its evaluation are those that are measured.
        platform: Device, threads, and how many cells share a machine.
    """
    with scratch(code, where, device=platform.device, threads=platform.threads) as place:
        seconds = _Probe(place, cell, platform.at_once).seconds()
    step_s = seconds["step"]["wall_s"]
    tokens = cell.trunk.model.tokens_per_step
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "model": cell.trunk.model.name,
        "form": cell.form.id,
        "method": cell.form.method,
        "platform": platform.name,
        "device": platform.device,
        "at_once": platform.at_once,
        "tokens_per_s": round(tokens / step_s) if step_s else None,
        "memory_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        "seconds": seconds,
    }


class _Probe:
    """Short cells of one kind, as many at once as share a machine."""

    def __init__(self, place: Scratch, cell: Cell, at_once: int) -> None:
        self._place, self._cell, self._at_once = place, cell, at_once
        trains = METHODS[cell.form.method].trains
        self._form: Form = replace(cell.form, start="scratch") if trains else cell.form

    def seconds(self) -> dict[str, Seconds]:
        """What a start, a step, a form and a sequence take."""
        short = self._lineage(COLD)
        cold, asked = self._trunks(short), self._cells(short, BASE)
        warm = [asked]
        if self._form != BASE:
            asked = self._cells(short, self._form)
            warm.append(asked)
        for jobs in (cold, *warm):
            self._place.run(*jobs)
        found = dict.fromkeys(("start", "step", "quantise", "save"), NOTHING)
        found["sequence"] = _times(self._work(asked, -1), 1 / self._cell.evaluation.sequences)
        if self._form == BASE or METHODS[self._form.method].trains:
            return found | self._training(warm)
        return found | {"quantise": self._work(asked, 0), "import": self._imports(warm)}

    def _training(self, warm: list[list[Job]]) -> dict[str, Seconds]:
        """Seconds of a step, of a start and of the imports, from stages of several lengths."""
        runs: list[list[Job]] = []
        for length in LENGTHS:
            runs.append(self._trained(length))
            step, start = self._line(runs)
            if is_enough(_minus(self._work(runs[-1], 0), self._work(runs[0], 0)), start):
                break
        return {"step": step, "start": start, "import": self._imports([*warm, *runs])}

    def _line(self, runs: list[list[Job]]) -> tuple[Seconds, Seconds]:
        """A step is the difference of the shortest and the longest; a start is what is left."""
        took, steps = [self._work(jobs, 0) for jobs in runs], [_num_steps(jobs[0]) for jobs in runs]
        step = _times(_minus(took[-1], took[0]), 1 / max(steps[-1] - steps[0], 1))
        left = [_minus(each, _times(step, count)) for each, count in zip(took, steps, strict=True)]
        return step, _mean(left)

    def _trained(self, steps: int) -> list[Job]:
        """Train for so many steps: a trunk, or the form from its first step."""
        lineage = self._lineage(steps)
        jobs = self._trunks(lineage) if self._form == BASE else self._weights(lineage)
        self._place.run(*jobs)
        return jobs

    def _lineage(self, steps: int) -> Lineage:
        forms = dict.fromkeys((BASE, self._form))
        return self._place.grid(
            self._cell.trunk.model,
            [steps],
            forms,
            seeds=range(self._at_once),
            evaluation=self._cell.evaluation,
        )

    @staticmethod
    def _trunks(lineage: Lineage) -> list[Job]:
        return [lineage.milestone(lineage.trunks[name], at) for name, at in lineage.milestones]

    @staticmethod
    def _cells(lineage: Lineage, form: Form) -> list[Job]:
        return [lineage.job(cell) for cell in lineage.grid.cells if cell.form == form]

    def _weights(self, lineage: Lineage) -> list[Job]:
        """Only the training of the forms."""
        jobs = self._cells(lineage, self._form)
        return [job._replace(stages=job.stages[:1]) for job in jobs]

    # -- what they took ---------------------------------------------------------------------------

    def _work(self, jobs: list[Job], stage: int) -> Seconds:
        """The mean of a stage of some jobs, as its script saw it."""
        return _mean([self._place.record(job.stages[stage].record)["work"] for job in jobs])

    def _imports(self, runs: list[list[Job]]) -> Seconds:
        """The mean of what attempts take outside their scripts: mostly the imports."""
        return _mean([self._import(job) for jobs in runs for job in jobs])

    def _import(self, job: Job) -> Seconds:
        whole: Seconds = self._place.record(job.last.record)["links"][-1]
        for stage in range(len(job.stages)):
            whole = _minus(whole, self._work([job], stage))
        return whole


def is_enough(gained: Seconds, start: Seconds) -> bool:
    """Whether a training is so much longer than the shortest that both tell what a step takes."""
    apart = (gained[name] >= max(LONG_S, STARTS * start[name]) for name in NOTHING)
    return all(apart) or gained["wall_s"] >= ENOUGH_S


def _num_steps(job: Job) -> int:
    """Steps of the first stage of a job that trains from the first step."""
    spec = job.stages[0].spec
    return int(spec["num_steps"] if "num_steps" in spec else spec["cooldown"]["num_steps"])


def _minus(one: Seconds, other: Seconds) -> Seconds:
    """A difference; noise makes nothing cost less than nothing."""
    return {name: max(one[name] - other[name], 0.0) for name in NOTHING}


def _mean(each: Sequence[Seconds]) -> Seconds:
    return {name: fmean(one[name] for one in each) for name in NOTHING}


def _times(one: Seconds, factor: float) -> Seconds:
    return {name: one[name] * factor for name in NOTHING}
