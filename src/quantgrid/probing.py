"""The probe: what a model and a method take on this device, by the real scripts and runner.

Short cells of two lengths tell the seconds of a step from those of a start.  As many run at once as
will share the machine later, so that what they take from each other is measured too.
"""

import resource
from collections.abc import Mapping
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
VERSION = 2
SHORT = 10
"""Steps of the short cell: the least that has a cool-down."""
LONG_S = 5.0
"""About so many seconds of training in the long cell."""
MOST_STEPS = 2000

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
        short = self._lineage(SHORT)
        trunks, bases = self._trunks(short), self._cells(short, BASE)
        for jobs in (trunks, bases):
            self._place.run(*jobs)
        asked = trunks
        if self._form != BASE:
            asked = bases = self._cells(short, self._form)
            self._place.run(*asked)
        sequences = self._cell.evaluation.sequences
        found = dict.fromkeys(("start", "step", "quantise", "save"), NOTHING)
        found["import"] = self._import(asked)
        found["sequence"] = _times(self._work(bases, -1), 1 / sequences)
        if self._form == BASE or METHODS[self._form.method].trains:
            return found | self._training(asked)
        return found | {"quantise": self._work(asked, 0)}

    def _training(self, asked: list[Job]) -> dict[str, Seconds]:
        """Seconds of a step and of a start, from stages of two lengths."""
        short, few = self._work(asked, 0), _num_steps(asked[0])
        guess_s = max(short["wall_s"] / few, 1e-6)
        length = round(min(max(LONG_S / guess_s, 4 * SHORT), MOST_STEPS))
        lineage = self._lineage(length)
        longer = self._trunks(lineage) if self._form == BASE else self._weights(lineage)
        self._place.run(*longer)
        more = _num_steps(longer[0]) - few
        step = _times(_minus(self._work(longer, 0), short), 1 / more)
        return {"step": step, "start": _minus(short, _times(step, few))}

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
        records = [self._place.record(job.stages[stage].record) for job in jobs]
        return {name: fmean(record["work"][name] for record in records) for name in NOTHING}

    def _import(self, jobs: list[Job]) -> Seconds:
        """What an attempt takes outside its scripts: mostly the imports."""
        records = [self._place.record(job.last.record) for job in jobs]
        whole = {name: fmean(each["links"][-1][name] for each in records) for name in NOTHING}
        for stage in range(len(jobs[0].stages)):
            whole = dict(_minus(whole, self._work(jobs, stage)))
        return whole


def _num_steps(job: Job) -> int:
    """Steps of the first stage of a job that trains from the first step."""
    spec = job.stages[0].spec
    return int(spec["num_steps"] if "num_steps" in spec else spec["cooldown"]["num_steps"])


def _minus(one: Seconds, other: Seconds) -> Seconds:
    """A difference; noise makes nothing cost less than nothing."""
    return {name: max(one[name] - other[name], 0.0) for name in NOTHING}


def _times(one: Seconds, factor: float) -> Seconds:
    return {name: one[name] * factor for name in NOTHING}
