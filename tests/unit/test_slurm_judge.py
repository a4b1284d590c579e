"""What became of a submission: every kind of end, and no patience without an end."""

import itertools

import pytest

from quantgrid.slurm.judge import Evidence, Patience, Verdict, judge
from quantgrid.slurm.queue import Seen

PATIENCE = Patience(settle_s=5, silence_s=120, num_silent=3)


def evidence(state: str | None = None, **facts: object) -> Evidence:
    """Evidence with a state that SLURM gave, long ago."""
    seen = Seen("7", state) if state else None
    return Evidence(seen=seen, is_answered=True, over_s=1000.0)._replace(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("it", "verdict", "end"),
    [
        (Evidence(code=0), Verdict.DONE, "done"),
        (Evidence(code=70), Verdict.FAILED, "exit code 70"),
        (Evidence(code=78), Verdict.FAILED, "exit code 78"),
        (Evidence(code=78, is_held=True), Verdict.AGAIN, "held"),
        (Evidence(code=75), Verdict.WAIT, ""),  # somebody may have cancelled it: SLURM is asked
        (evidence("COMPLETING", code=75), Verdict.WAIT, ""),
        (evidence("FAILED", code=75), Verdict.AGAIN, "handed over"),
        (evidence("TIMEOUT", code=75), Verdict.AGAIN, "handed over"),
        (evidence("PREEMPTED", code=75), Verdict.AGAIN, "handed over"),
        (evidence(code=75), Verdict.AGAIN, "handed over"),
        (evidence("CANCELLED", code=75), Verdict.FAILED, "cancelled"),
        (evidence("CANCELLED"), Verdict.FAILED, "cancelled"),
        (evidence("CANCELLED", code=143), Verdict.FAILED, "cancelled"),
        (evidence("TIMEOUT"), Verdict.AGAIN, "TIMEOUT"),
        (evidence("TIMEOUT", code=137), Verdict.AGAIN, "TIMEOUT"),
        (evidence("PREEMPTED"), Verdict.AGAIN, "PREEMPTED"),
        (evidence("NODE_FAIL"), Verdict.AGAIN, "NODE_FAIL"),
        (evidence("NODE_FAIL", over_s=1.0), Verdict.WAIT, ""),
        (evidence("NODE_FAIL", num_silent=2), Verdict.FAILED, "NODE_FAIL"),
        (evidence("OUT_OF_MEMORY"), Verdict.FAILED, "OUT_OF_MEMORY"),
        (evidence("FAILED"), Verdict.FAILED, "FAILED"),
        (evidence("FAILED", over_s=1.0), Verdict.WAIT, ""),
        (evidence("COMPLETED"), Verdict.AGAIN, "lost"),  # it said nothing, so it did nothing
        (evidence("UNKNOWN"), Verdict.AGAIN, "lost"),  # never a success
        (evidence(over_s=60.0), Verdict.WAIT, ""),
        (evidence(), Verdict.AGAIN, "lost"),
        (evidence(num_silent=2), Verdict.FAILED, "lost"),
        (evidence("RUNNING"), Verdict.WAIT, ""),
        (evidence("REQUEUED"), Verdict.WAIT, ""),
        (Evidence(over_s=1e6), Verdict.WAIT, ""),  # SLURM is silent: nothing is decided
    ],
)
def test_submission_is_judged_by_its_word_and_by_slurm(
    it: Evidence, verdict: Verdict, end: str
) -> None:
    """Each line is one way to end that a real cluster has."""
    assert judge(it, PATIENCE)[:2] == (verdict, end)


STATES = (None, "RUNNING", "PENDING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "SOMETHING")


@pytest.mark.parametrize("code", [None, 0, 1, 69, 70, 75, 78, 137, 143])
def test_success_needs_the_word_of_the_job_itself(code: int | None) -> None:
    """No state of SLURM makes a success, and none takes away a word of success."""
    for state, over_s, answered in itertools.product(STATES, (0.0, 1e6), (False, True)):
        it = evidence(state, code=code, over_s=over_s, is_answered=answered)
        assert (judge(it, PATIENCE).verdict is Verdict.DONE) == (code == 0)


@pytest.mark.parametrize("code", [None, 1, 75, 143])
def test_every_end_is_decided_when_slurm_answers(code: int | None) -> None:
    """What is over is not waited for for ever."""
    for state in STATES:
        it = evidence(state, code=code, over_s=1e6)
        is_live = state in {"RUNNING", "PENDING"} and code != 1
        assert (judge(it, PATIENCE).verdict is Verdict.WAIT) == is_live
