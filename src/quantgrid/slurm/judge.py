"""What became of a submission: a pure judgement of its own word and of what SLURM says."""

from enum import StrEnum
from typing import NamedTuple

from quantgrid.errors import Checkpointed, Refusal
from quantgrid.slurm.queue import Seen

_OUTSIDE = frozenset(
    {"TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED"}
)
"""States in which SLURM ended a job for reasons of its own (squeue(1))."""

_BY_ITSELF = "exit code"
HANDED_OVER = "handed over"
LOST = "lost"
CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What is to be done with a subject."""

    WAIT = "wait"
    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"


class Evidence(NamedTuple):
    """What is known of a submission.

    Args:
        code: The exit code that it left in its file; None when it left none.
        seen: What SLURM says; None when SLURM does not know it.
        is_answered: Whether SLURM was asked and answered.
        over_s: Seconds since SLURM first said that it is over, or did not know it; 0 while it runs.
        is_held: Whether it left because somebody else computes the subject.
        num_silent: How many submissions in a row ended without a word, before this one.
    """

    code: int | None = None
    seen: Seen | None = None
    is_answered: bool = False
    over_s: float = 0.0
    is_held: bool = False
    num_silent: int = 0


class Patience(NamedTuple):
    """How long to wait for what should come.

    Args:
        settle_s: For a file of a node to be seen here, after SLURM says that the job is over.
        silence_s: For SLURM to remember a job that it does not know.
        num_silent: Submissions in a row that may end without a word.
    """

    settle_s: float = 5.0
    silence_s: float = 120.0
    num_silent: int = 3


class Judgement(NamedTuple):
    """A verdict, how the submission ended, and the words for a person."""

    verdict: Verdict
    end: str = ""
    words: str = ""

    @property
    def is_own_word(self) -> bool:
        """Whether the job said itself how it ended."""
        return self.end.startswith(_BY_ITSELF)


_WAIT = Judgement(Verdict.WAIT)


def judge(it: Evidence, patience: Patience) -> Judgement:
    """What became of a submission.

    Its own word decides, except where somebody cancelled it: then it must not come back by itself.
    """
    if it.code == 0:
        return Judgement(Verdict.DONE, "done")
    has_word = it.code is not None and it.code < 128
    if has_word and it.code != Checkpointed.exit_code:
        return _failed_by_itself(it)
    if not it.is_answered or (it.seen and it.seen.is_live):
        return _WAIT
    if it.seen and it.seen.state == "CANCELLED":
        words = f"somebody cancelled SLURM job {it.seen.job}; its state is kept"
        return Judgement(Verdict.FAILED, CANCELLED, words)
    if has_word:
        return Judgement(Verdict.AGAIN, HANDED_OVER, "it saved its state and left")
    return _without_word(it, patience)


def _failed_by_itself(it: Evidence) -> Judgement:
    if it.code == Refusal.exit_code and it.is_held:
        return Judgement(Verdict.AGAIN, "held", "another process computes it")
    return Judgement(
        Verdict.FAILED, f"{_BY_ITSELF} {it.code}", f"it ended with exit code {it.code}"
    )


def _without_word(it: Evidence, patience: Patience) -> Judgement:
    """Nothing was left, or only that a signal killed it."""
    if it.over_s < patience.settle_s:
        return _WAIT
    state = it.seen.state if it.seen else ""
    if state in _OUTSIDE:
        return _again(it, patience, state)
    if state in {"OUT_OF_MEMORY", "FAILED"}:
        why = "SLURM killed it for memory" if state[0] == "O" else "it ended without a word"
        return Judgement(Verdict.FAILED, state, f"{why} (SLURM says {state})")
    if it.over_s < patience.silence_s:
        return _WAIT
    return _again(it, patience, LOST)


def _again(it: Evidence, patience: Patience, end: str) -> Judgement:
    told = "SLURM does not know it" if end == LOST else f"SLURM says {end}"
    if it.num_silent + 1 >= patience.num_silent:
        words = f"{it.num_silent + 1} submissions in a row ended without a word, the last: {told}"
        return Judgement(Verdict.FAILED, end, words)
    return Judgement(Verdict.AGAIN, end, told)


SILENT_ENDS = frozenset({*_OUTSIDE, LOST})
"""Ends without a word."""

FINAL_ENDS = frozenset({CANCELLED, "exit code 70", "exit code 65", "exit code 78"})
"""Failures that a further submission would meet again: code, data, refusal, and a person's will."""
