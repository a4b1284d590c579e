"""What the controller tells everybody who is not at its terminal: a small file, renewed."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout, processes
from quantgrid.clock import Clock
from quantgrid.terminal import Job
from snakemake_logger_plugin_quantgrid.tally import Tally

_EVERY_S = 1.0
_AT_LEAST_EVERY_S = 10.0


class Teller:
    """Publishes a tally for `quantgrid status` and `attach`, when something in it changed.

    Only a controller that holds its working copy tells: a dry run and a refused second controller
    know nothing of the one that runs.  An unchanged tally is told again every ten seconds, so that
    the time of the file is a sign of life.
    """

    def __init__(self, clock: Clock, *, mark: Callable[[], str | None] | None = None) -> None:
        self._clock, self._mark = clock, mark or processes.find_own_mark
        self._told: Mapping[str, Any] | None = None
        self._told_s = 0.0

    def tell(self, tally: Tally, outputs: Mapping[int, Path], *, is_over: bool) -> None:
        """Publish what is known now, unless that was told a moment ago."""
        controller, now_s = self._mark(), self._clock.monotonic_s()
        age_s = now_s - self._told_s
        if controller is None or (self._told and age_s < _EVERY_S and not is_over):
            return
        facts = snapshot(tally, outputs, now_s, is_over=is_over)
        if self._told and _lasting(facts) == _lasting(self._told) and age_s < _AT_LEAST_EVERY_S:
            return
        self._told, self._told_s = facts, now_s
        with suppress(OSError):  # who looks on must never stop the grid
            atomic.publish_json(Path(layout.CONTROLLER_NOW), {"controller": controller, **facts})


def snapshot(
    tally: Tally, outputs: Mapping[int, Path], now_s: float, *, is_over: bool
) -> dict[str, Any]:
    """A tally as JSON; times of jobs are Unix times, because monotonic clocks end with a boot."""
    seen, wall_s = tally.overview(now_s), time.time()
    failures = [(failure.job, failure.words) for failure in tally.failures.values()]
    return {
        "told": wall_s,
        "grid": seen.grid,
        "cells_done": seen.cells_done,
        "cells": seen.cells,
        "jobs_done": seen.jobs_done,
        "jobs": seen.jobs,
        "running_jobs": seen.running,
        "failed": seen.failed,
        "elapsed_s": seen.elapsed_s,
        "left_s": seen.left_s,
        "running": [
            {**_told(job), "progress": str(outputs.get(job.id, "")), "started": wall_s - age_s}
            for job in tally.running.values()
            for age_s in [now_s - job.started_s]
        ],
        "failures": [{**_told(job), "words": words} for job, words in failures],
        "is_over": is_over,
    }


def _told(job: Job) -> dict[str, Any]:
    return {"id": job.id, "rule": job.rule, "owner": job.owner, "logs": list(job.logs)}


def _lasting(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What changes by events and not by the mere passing of time."""
    running = [job["id"] for job in facts["running"]]
    return facts["jobs_done"], facts["cells_done"], running, facts["failures"], facts["is_over"]
