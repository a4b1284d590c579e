"""Two ways to show a tally: live lines in a terminal, one line an event everywhere else."""

from collections.abc import Iterator, Set
from typing import Protocol, TextIO

from quantgrid.screen import Screen
from quantgrid.terminal import (
    Job,
    counted_line,
    job_lines,
    overall_line,
    scroll_line,
    spoken,
)
from quantgrid.wording import clause, next_step, wrapped
from snakemake_logger_plugin_quantgrid.tally import CELL_RULE, Failure, Tally

_INSTANT = frozenset({CELL_RULE, "all"})
"""Rules whose jobs are so many or so short that a terminal only counts them."""

_STOPPED_ON_REQUEST = "stopped on request; the same command goes on from what is kept"
_MAX_JOB_ROWS = 10
_MAX_RECALLED = 10
_INDENT = 6
_BOLD, _RED, _GREEN = 1, 31, 32


class Face(Protocol):
    """What the board tells, and a person sees; jobs come with the tally as it is after them."""

    def started(self, tally: Tally, job: Job) -> None:
        """A job runs."""

    def done(self, tally: Tally, job: Job, seconds: float) -> None:
        """A job is done."""

    def failed(self, tally: Tally, failure: Failure, seconds: float) -> None:
        """A job failed; Snakemake's own report of it follows."""

    def concluded(self, tally: Tally, now_s: float, told: Set[str]) -> None:
        """No job will follow; whose failures the last words tell, these lines do not."""

    def say_last(self, lines: list[str]) -> None:
        """What the run did, as the workflow sums it up; nothing when it does not."""

    def refresh(self, tally: Tally, now_s: float) -> None:
        """Show how far it is."""

    def clear(self) -> None:
        """Take back what moves; what was told stays."""


class Lines:
    """One line an event, with counts, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def started(self, tally: Tally, job: Job) -> None:
        """A job runs."""
        if job.rule not in _INSTANT:
            self._say(counted_line(tally.counts, "start", job))

    def done(self, tally: Tally, job: Job, seconds: float) -> None:
        """A job is done."""
        facts = [f"{seconds:.1f} s", *spoken(job.reading)]
        if job.rule == CELL_RULE:
            facts.append("{}/{} cells".format(*tally.cells))
        self._say(counted_line(tally.counts, "done", job, *facts))

    def failed(self, tally: Tally, failure: Failure, seconds: float) -> None:
        """A job failed: its line with its own words, the place of its log."""
        facts = (f"{seconds:.1f} s", failure.words)
        self._say(counted_line(tally.counts, failure.word, failure.job, *facts))
        for log in failure.job.logs:
            self._say(f"  log: {log}")

    def concluded(self, tally: Tally, now_s: float, told: Set[str]) -> None:
        """The failed jobs that the last words leave out, then the counts."""
        for line in recall(tally, told):
            self._say(line)
        self._say(overall_line(tally.overview(now_s), width=1000))

    def say_last(self, lines: list[str]) -> None:
        """Below the counts."""
        for line in lines:
            self._say(line)

    def refresh(self, tally: Tally, now_s: float) -> None:
        """Lines stand as they are."""

    def clear(self) -> None:
        """Lines stand as they are."""

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


class Live:
    """Finished jobs scroll; below them the counts and one line a running job."""

    def __init__(self, screen: Screen, *, is_coloured: bool) -> None:
        self._screen, self._is_coloured = screen, is_coloured

    def started(self, tally: Tally, job: Job) -> None:
        """A job runs: the next refresh shows it."""

    def done(self, tally: Tally, job: Job, seconds: float) -> None:  # noqa: ARG002 - Face's form
        """A job is done."""
        if job.rule not in _INSTANT:
            self._say("done", scroll_line(job, seconds, self._width() - _INDENT), _GREEN)

    def failed(self, tally: Tally, failure: Failure, seconds: float) -> None:  # noqa: ARG002
        """A job failed: its line, its own words, the place of its log."""
        self._say(failure.word, scroll_line(failure.job, seconds, self._width() - _INDENT), _RED)
        for line in wrapped(failure.words, self._width() - _INDENT):
            self._screen.write(f"{' ' * _INDENT}{self._painted(line, _RED)}\n")
        for log in failure.job.logs:
            self._screen.write(f"      log: {log}\n")

    def concluded(self, tally: Tally, now_s: float, told: Set[str]) -> None:
        """The failed jobs that the last words leave out, then the counts."""
        for line in recall(tally, told):
            self._screen.write(f"{self._painted(line, _RED)}\n")
        line = overall_line(tally.overview(now_s), self._width())
        self._screen.write(f"{self._painted(line, _BOLD)}\n")

    def say_last(self, lines: list[str]) -> None:
        """Below the counts."""
        for line in lines:
            self._screen.write(f"{line}\n")

    def refresh(self, tally: Tally, now_s: float) -> None:
        """Draw the block for the terminal as it is now."""
        rows = min(_MAX_JOB_ROWS, self._screen.size()[1] - 3)
        overall = overall_line(tally.overview(now_s), self._width())
        told = [job for job in tally.running.values() if job.rule not in _INSTANT]
        jobs = job_lines(told, now_s, width=self._width(), rows=rows)
        self._screen.draw([self._painted(overall, _BOLD), *jobs])

    def clear(self) -> None:
        """Take the block back."""
        self._screen.draw([])

    def _width(self) -> int:
        """One column is left free, so that no terminal wraps a line."""
        return self._screen.size()[0] - 1

    def _say(self, word: str, rest: str, colour: int) -> None:
        self._screen.write(f"{self._painted(word, colour)}  {rest}\n")

    def _painted(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured else text


def recall(tally: Tally, told: Set[str] = frozenset()) -> list[str]:
    """The failed jobs of a call, for the eye that looks at the end first.

    Each was told whole when it failed: here stands what it was and what to do, in few words.
    Where all were asked to stop, the jobs that did are not told once more.

    Args:
        tally: The jobs.
        told: Owners of jobs that somebody else tells of.
    """
    failures = [
        each
        for each in tally.failures.values()
        if each.job.owner not in told and not (tally.is_stopping and each.word == "stop")
    ]
    lines = [line for each in failures[:_MAX_RECALLED] for line in _in_short(each)]
    hidden = len(failures) - _MAX_RECALLED
    lines += [f"and {hidden} more failed"] if hidden > 0 else []
    return [*lines, _STOPPED_ON_REQUEST] if tally.is_stopping else lines


def _in_short(failure: Failure) -> Iterator[str]:
    """A failed job without numbers and places; one that was stopped asks for nothing."""
    owner = failure.job.owner
    what = clause(failure.words).removeprefix(owner).removeprefix(":").strip()
    yield f"{failure.word}  {owner}  {failure.job.rule}  {what}"
    step = next_step(failure.words) if failure.word == "fail" else ""
    if step:
        yield f"{' ' * _INDENT}{step}"
