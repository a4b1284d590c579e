"""Jobs that are no cell's own, of the corpus, the table and the page: what failed there.

Snakemake removes what a failed job was to make, so one whose product is missing and whose log ends
in an error is what keeps the grid; nothing has to be remembered for that.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout, masking, terminal
from quantgrid.clock import timestamp
from quantgrid.failures import Failure
from quantgrid.recipe import Recipe

_TAIL_BYTES = 65536
_TRACEBACK = "Traceback (most recent call last):"

_MAKES_CORPUS = " corpus --forcerun "
"""In a message whose mend is to make or to read the corpus again."""


class CommonJob(NamedTuple):
    """A job that many cells wait for, or that waits for all of them.

    Args:
        owner: Name of the corpus or of the grid.
        rule: The rule of Snakemake.
        product: What it makes, relative to the working copy.
    """

    owner: str
    rule: str
    product: str

    @property
    def log(self) -> str:
        """Its log, relative to the working copy."""
        return layout.log_of(self.product)

    def find_error(self, root: Path) -> str | None:
        """What it said last, where it failed; None where it is done, was stopped or never ran."""
        if (root / self.product).exists():
            return None
        try:
            with (root / self.log).open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
                tail = file.read().decode(errors="replace")
        except OSError:
            return None
        said = terminal.find_error_sentence(tail) or ""
        is_error = said.startswith(terminal.SENTENCES) or _TRACEBACK in tail
        if not is_error or said.startswith(terminal.STOPPED):
            return None
        return masking.masked(said, os.environ)


def before(recipe: Recipe | None) -> Iterator[CommonJob]:
    """What every cell of a grid waits for, in its order."""
    if recipe is not None:
        names = {"corpus": recipe.name, "fp": recipe.digest}
        yield CommonJob(recipe.name, "prepare", layout.PREPARED.format(**names))
        yield CommonJob(recipe.name, "seal", layout.SENTINEL.format(**names))


def after(grid: str) -> Iterator[CommonJob]:
    """What waits for every cell of a grid."""
    yield CommonJob(grid, "table", layout.LAWS.format(grid=grid))
    yield CommonJob(grid, "report", layout.PAGE.format(grid=grid))


def first_error(jobs: Iterator[CommonJob], root: Path) -> tuple[CommonJob, str] | None:
    """The first of some jobs that failed, with what it said; those after it only waited."""
    before: Path | None = None
    for job in jobs:
        product = root / job.product
        if not product.exists():
            said = job.find_error(root)
            return (job, said) if said and not _is_older(root / job.log, before) else None
        before = product
    return None


def last_error(root: Path, *series: Iterator[CommonJob]) -> tuple[CommonJob, str] | None:
    """What failed last of several series of jobs, with what it said."""
    found = [error for jobs in series if (error := first_error(jobs, root))]
    return max(found, key=lambda error: (root / error[0].log).stat().st_mtime_ns, default=None)


def is_mended(failure: Failure, recipe: Recipe | None, root: Path) -> bool:
    """Whether a failure asks for a corpus that was sealed here after it."""
    if recipe is None or _MAKES_CORPUS not in str(failure["message"]):
        return False
    try:
        sealed = (root / layout.SENTINEL.format(corpus=recipe.name, fp=recipe.digest)).stat()
    except OSError:
        return False
    return timestamp(datetime.fromtimestamp(sealed.st_mtime, UTC)) > str(failure["when"])


def _is_older(log: Path, product: Path | None) -> bool:
    """Whether a log is of a time before the last thing that the job waits for was made."""
    return product is not None and log.stat().st_mtime_ns < product.stat().st_mtime_ns
