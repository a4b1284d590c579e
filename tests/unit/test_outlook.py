"""What a person reads of a controller fits a terminal, whatever the ids and the errors are."""

from pathlib import Path

import pytest

from quantgrid import outlook, processes
from quantgrid.standing import Holder, Standing, State

_OWNER = "n100-t1000m-p4-s12/gptq-w2g128-asym-actorder-clip95"
_HOLDER = Holder("c", 4711, "1", processes.place(), "desk", "2026-11-30T12:00:00Z", 1, ())


def _standing(root: Path, state: State, **now: object) -> Standing:
    job = {"id": 1, "rule": "quantise", "owner": _OWNER, "logs": ["logs/a.log"]}
    facts = {
        "told": 0.0, "grid": "paper", "cells_done": 37, "cells": 1008, "jobs_done": 61,
        "jobs": 2042, "running_jobs": 1, "failed": 1, "elapsed_s": 72.0, "left_s": 125.0,
        "running": [{**job, "progress": "p.json", "started": 0.0}],
        "failures": [{**job, "words": "failed: " + "nothing is as it should be " * 9}],
    }  # fmt: skip
    return Standing(root, state, _HOLDER, {**facts, **now}, {}, 1.8e9)


@pytest.mark.parametrize("state", list(State))
def test_lines_fit_a_terminal_when_ids_and_errors_are_long(tmp_path: Path, state: State) -> None:
    """No line is wider than 80 columns, in no state."""
    lines = outlook.lines(_standing(tmp_path, state))

    assert [line for line in lines if len(line) > 80] == []
    assert len(lines) > 5


def test_lines_show_what_a_job_says_now_when_it_runs(tmp_path: Path) -> None:
    """Steps and loss come from the progress file itself, not from what the controller told."""
    (tmp_path / "p.json").write_text('{"stage": "cooldown", "step": 9, "steps": 391, "loss": 2.41}')
    text = "\n".join(outlook.lines(_standing(tmp_path, State.HALTED)))

    assert "  9/391" in text
    assert "loss 2.41" in text
    assert "  37/1008 cells  61/2042 jobs  1:12 elapsed" in text
    assert "\n          jobs: 1 running, 1 failed\n" in text


def test_nothing_runs_when_a_controller_has_ended(tmp_path: Path) -> None:
    """What it told last is not what is true now."""
    text = "\n".join(outlook.lines(_standing(tmp_path, State.ENDED)))

    assert "\n          jobs: 1 failed\n" in text


def test_lines_leave_it_to_the_map_how_many_cells_wait(tmp_path: Path) -> None:
    """A refused seal is one job, which all cells wait for: two counts could not agree."""
    job = {"rule": "seal", "owner": "shakespeare", "logs": [], "words": "refused: x. Mend it."}
    lines = outlook.lines(_standing(tmp_path, State.ENDED, failures=[job]))

    assert not [line for line in lines if "waiting" in line]
    assert lines[-3:-1] == ["refused   seal shakespeare", "          x. Mend it."]


def test_lines_leave_out_the_failures_that_were_told_as_they_came(tmp_path: Path) -> None:
    """Who followed a controller has read their sentences; how many there are stands."""
    text = "\n".join(outlook.lines(_standing(tmp_path, State.ENDED), are_failures_told=True))

    assert "nothing is as it should be" not in text
    assert "jobs: 1 failed" in text


def test_lines_count_the_failures_that_they_leave_out(tmp_path: Path) -> None:
    """The newest five are shown, the others counted."""
    job = {"rule": "base", "logs": []}
    failures = [{**job, "owner": f"cell-{number}", "words": "failed: x."} for number in range(7)]
    text = "\n".join(outlook.lines(_standing(tmp_path, State.ENDED, failures=failures)))

    assert "and 2 more failures before these" in text
    assert "cell-1" not in text
    assert "cell-6" in text


def test_job_that_was_stopped_is_not_called_failed(tmp_path: Path) -> None:
    """The counts do not call it so either."""
    job = {"rule": "base", "owner": "n0/none", "logs": [], "words": "interrupted: state kept."}
    text = "\n".join(outlook.lines(_standing(tmp_path, State.ENDED, failed=0, failures=[job])))

    assert "stopped   base n0/none\n          interrupted: state kept." in text
    assert "failed    " not in text


@pytest.mark.parametrize("left", [{}, {"cells_done": 7}, {"jobs_done": 8}, {"failed": 1}])
def test_start_is_offered_when_something_is_left(tmp_path: Path, left: dict[str, int]) -> None:
    """A grid that is finished has no next command; one that lacks a cell or a job has."""
    made = {"cells_done": 8, "cells": 8, "jobs_done": 9, "jobs": 9, "failed": 0, "failures": []}
    lines = outlook.lines(_standing(tmp_path, State.ENDED, **{**made, **left}))

    done = "next      nothing: all that it was asked for is done"
    assert lines[-1] == ("start     quantgrid launch" if left else done)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ((), "quantgrid launch"),
        (("--profile", "profiles/local"), "quantgrid launch"),
        (
            ("--profile", "profiles/local", "--config", "select=bits<=3 and seed=0"),
            "quantgrid launch -- --config 'select=bits<=3 and seed=0'",
        ),
        (("--profile", "lab"), "quantgrid launch -- --profile lab"),
    ],
)
def test_command_can_be_typed_again_when_shown(arguments: tuple[str, ...], command: str) -> None:
    """What launch adds by itself is left out; the rest is quoted for a shell."""
    assert outlook.again(arguments) == command
