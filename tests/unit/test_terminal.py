"""What a person reads while a grid is computed."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgrid import contract, errors
from quantgrid.cell import Cell, Progress
from quantgrid.layout import PROGRESS, progress_file
from quantgrid.terminal import (
    Job,
    Overview,
    Reading,
    clock_face,
    counted_line,
    elide,
    find_error_sentence,
    find_reading,
    fit,
    job_lines,
    job_owner,
    overall_line,
    rate,
    scroll_line,
    short_time,
)

TRAINING = Reading("cooldown", 120, 391, 2.4123, 38123, 42.2)
JOBS = [
    Job(1, "base", "n0-t1600k-s0/none", (), 0, TRAINING),
    Job(2, "qat", "n0-t1600k-s0/qat-ternary-row-absmean", (), 0, TRAINING),
    Job(3, "quantise", "n0-t800k-s2/gptq-w3g32-noclip", (), 0),
]


def _overview(**facts: object) -> Overview:
    seen = {"grid": "demo", "cells_done": 37, "cells": 105, "jobs_done": 61, "jobs": 242}
    seen |= {"running": 2, "failed": 0, "elapsed_s": 72, "left_s": 125}
    return Overview(**(seen | facts))  # type: ignore[arg-type]


def test_overall_line_names_cells_jobs_and_times_at_80_columns() -> None:
    """One line tells how far the grid is."""
    line = "demo  37/105 cells  61/242 jobs  2 running  1:12 elapsed  about 2:05 left"
    assert overall_line(_overview(), 79) == line


def test_overall_line_keeps_cells_and_failures_longest_when_it_is_narrow() -> None:
    """What a person needs most goes last."""
    assert overall_line(_overview(failed=3), 24) == "37/105 cells  3 failed"


def test_overall_line_tells_no_time_left_when_nobody_can_know() -> None:
    """A guess without a base is not shown."""
    assert "left" not in overall_line(_overview(left_s=None), 200)


def test_job_line_tells_stage_steps_loss_speed_and_time_left() -> None:
    """Everything that the progress file says is there, in words."""
    (line,) = job_lines(JOBS[:1], 65, width=99, rows=10)
    said = "  n0-t1600k-s0/none  cooldown  120/391  loss 2.41  38.1k tok/s  0:42 left"
    assert line == said


def test_job_line_tells_rule_and_age_when_the_job_said_nothing() -> None:
    """A silent job is visible too."""
    (line,) = job_lines(JOBS[2:], 65, width=99, rows=10)
    assert line == "  n0-t800k-s2/gptq-w3g32-noclip  quantise  1:05 so far"


def test_job_lines_stand_in_columns_when_jobs_differ() -> None:
    """Columns line up, and 80 columns keep every number."""
    lines = job_lines(JOBS, 65, width=79, rows=10)
    assert {line.index("120/391") for line in lines[:2]} == {lines[0].index("120/391")}
    assert all("loss 2.41  38.1k/s" in line for line in lines[:2])


def test_job_lines_count_the_rest_when_rows_are_few() -> None:
    """No job is dropped silently."""
    assert job_lines(JOBS, 65, width=79, rows=2)[1] == "  and 2 more"


_readings = st.builds(
    Reading,
    stage=st.none() | st.text("abc-", min_size=1, max_size=12),
    step=st.none() | st.integers(0, 10**7),
    steps=st.none() | st.integers(0, 10**7),
    loss=st.none() | st.floats(),
    tokens_per_s=st.none() | st.floats(0, 1e12),
    left_s=st.none() | st.floats(0, 1e8),
)
_jobs = st.builds(
    Job, st.integers(), st.just("quantise"), st.text("ab/-", max_size=60), st.just(()), st.just(0.0)
)


@given(st.lists(st.tuples(_jobs, _readings), max_size=8), st.integers(1, 130), st.integers(0, 6))
def test_job_lines_stay_within_width_and_rows_always(
    pairs: list[tuple[Job, Reading]], width: int, rows: int
) -> None:
    """A line that wraps or a block that is too high would break the display."""
    jobs = [Job(job.id, job.rule, job.owner, (), 0, reading) for job, reading in pairs]
    lines = job_lines(jobs, 1e5, width=width, rows=rows)
    assert len(lines) <= rows
    assert all(len(line) <= width for line in lines)


@given(st.text("abcdef/-", max_size=60), st.integers(0, 60))
def test_elide_keeps_the_width_always(text: str, width: int) -> None:
    """Short texts stay; long ones become exactly as long as allowed."""
    assert len(elide(text, width)) == min(len(text), width)


@given(st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=9))), st.integers(1, 40))
def test_fit_keeps_the_width_always(parts: list[tuple[int, str]], width: int) -> None:
    """No line is longer than it may be."""
    assert len(fit(parts, width)) <= width


def test_speed_is_held_against_its_probe_where_the_line_has_room() -> None:
    """A slow machine is seen while it is paid for; a narrow terminal keeps the speed alone."""
    slow = replace(TRAINING, probed_per_s=2 * 38_100.0)
    job = Job(1, "qat", "n0-t800k-s0/qat", (), 0, slow)

    assert "38.1k tok/s, 50% of its probe" in job_lines([job], 60, width=120, rows=1)[0]
    assert "38.1k/s" in job_lines([job], 60, width=70, rows=1)[0]
    assert "probe" not in job_lines([replace(job, reading=TRAINING)], 60, width=120, rows=1)[0]


def test_scroll_line_aligns_at_80_columns_and_shortens_below() -> None:
    """A finished job is one line that never wraps."""
    job = Job(1, "quantise", "n0-t800k-s0/rtn-w3g32-noclip", (), 0, TRAINING)
    wide = scroll_line(job, 2.1, 73)
    assert wide.split() == [job.owner, "quantise", "2.1", "s", "loss", "2.41", "38.1k", "tok/s"]
    assert scroll_line(job, 2.1, 46) == "n0-t800k-s0/rtn-w3g32-noclip  quantise  2.1 s"


def test_counted_line_is_greppable() -> None:
    """Counts first and equally wide, then word, rule and owner."""
    job = Job(1, "base", "n0-t100k-s0/none", (), 0)
    line = counted_line((61, 242), "done", job, "3.2 s", "", "38.1k tok/s")
    assert line == "[ 61/242] done  base n0-t100k-s0/none  3.2 s  38.1k tok/s"


@pytest.mark.parametrize(
    ("seconds", "face", "short"),
    [
        (0, "0:00", "0.0 s"),
        (2.13, "0:02", "2.1 s"),
        (59.94, "1:00", "59.9 s"),
        (59.96, "1:00", "1:00"),
        (3599.6, "1:00:00", "1:00:00"),
        (93792, "26:03:12", "26:03:12"),
    ],
)
def test_times_read_like_a_clock(seconds: float, face: str, short: str) -> None:
    """Rounding never shows sixty seconds."""
    assert (clock_face(seconds), short_time(seconds)) == (face, short)


@pytest.mark.parametrize(
    ("per_s", "text"), [(950, "950"), (999.6, "1.0k"), (38123, "38.1k"), (999_960, "1.0M")]
)
def test_rate_keeps_three_digits(per_s: float, text: str) -> None:
    """Rounding never shows a thousand thousands."""
    assert rate(per_s) == text


@pytest.mark.parametrize(
    ("rule", "wildcards", "owner"),
    [
        ("base", {"base": "n0-t100k-s0", "fp": "ab"}, "n0-t100k-s0/none"),
        ("base", {"base": "n0", "variant": "none", "fp": "ab"}, "n0/none"),
        ("qat", {"base": "n0", "variant": "qat", "fp": "ab"}, "n0/qat"),
        ("milestone", {"trunk": "n0-s0", "milestone": "79872", "fp": "ab"}, "n0-s0/79872"),
        ("all", {}, ""),
        ("seal", {"corpus": "shake\x1b[2Jspeare\n", "fp": "ab"}, "shakespeare"),
    ],
)
def test_job_owner_is_the_cell_milestone_or_corpus(
    rule: str, wildcards: dict[str, str], owner: str
) -> None:
    """Fingerprints are for machines, and an id cannot move the cursor."""
    assert job_owner(rule, wildcards).rstrip("\n") == owner


def _cell(progress: Path) -> Cell:
    nothing = progress.with_name("nothing.json")
    nothing.write_text("{}")
    environment = {variable.name: variable.example for variable in contract.TABLE}
    environment |= {contract.SPEC: str(nothing), contract.PARENTS: str(nothing)}
    return Cell.from_environment(environment | {contract.PROGRESS: str(progress)})


def test_reading_understands_what_cell_progress_writes(tmp_path: Path) -> None:
    """Writer and reader of progress files agree."""
    progress = Progress(_cell(tmp_path / "p.json"), num_steps=39, every_s=0)
    progress.step(1)
    progress.step(39, tokens=79872, loss=2.5)
    reading = find_reading((tmp_path / "p.json").read_text())
    assert reading is not None
    assert (reading.stage, reading.step, reading.steps, reading.loss) == ("cooldown", 39, 39, 2.5)
    assert reading.tokens_per_s is not None
    assert reading.left_s == 0


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"loss"'])
def test_reading_is_none_when_the_file_is_no_progress(text: str) -> None:
    """A half-written file is not shown."""
    assert find_reading(text) is None


def test_reading_leaves_out_fields_of_another_type() -> None:
    """Scripts in any language write these files; a wrong field is not said."""
    text = '{"stage": 1, "step": "x", "steps": true, "loss": null, "tokens_per_s": 5}'
    assert find_reading(text) == Reading(tokens_per_s=5)


def test_progress_file_is_one_flat_name_for_each_output() -> None:
    """Two outputs never share a progress file."""
    assert progress_file("receipts/cell/n0/none.ab.json") == (
        f"{PROGRESS}/receipts~cell~n0~none.ab.json.json"
    )


@pytest.mark.parametrize(
    "error",
    [
        errors.CorpusRefusal("shards differ", expected=3, seen=2),
        errors.DataFault("a digest differs"),
        errors.Alarm("loss is not finite"),
        errors.Checkpointed("the cap is near"),
    ],
)
def test_error_sentence_is_the_projects_own_when_there_is_one(
    error: errors.QuantgridError,
) -> None:
    """Every class of the tree is recognised, bare and as a traceback's last line."""
    bare = f"step 1\n{error}\nlast line of the log\n"
    raised = f"Traceback (most recent call last):\n  File x\nquantgrid.errors.{error!r}\n"
    traced = raised.replace(repr(error), f"{type(error).__name__}: {error}")
    assert find_error_sentence(bare) == str(error)
    assert find_error_sentence(traced) == str(error)


def test_error_sentence_is_type_and_message_of_the_last_traceback() -> None:
    """The last error counts, without its frames and without colours."""
    tail = (
        "Traceback (most recent call last):\n  File a\nKeyError: 'first'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n  File b\n    x = 1\n    ^^^^^\n"
        "\x1b[31mValueError: step 12 has no loss\x1b[0m\nmore of the message\n"
    )
    assert find_error_sentence(tail) == "ValueError: step 12 has no loss"


def test_error_sentence_is_the_last_line_when_nothing_better_is_there() -> None:
    """A program of another language has its word too; an empty log has none."""
    assert find_error_sentence("one\nSegmentation fault\n\n") == "Segmentation fault"
    assert find_error_sentence("\n \n") is None


def test_error_sentence_is_snakemakes_when_a_workflow_cannot_be_read() -> None:
    """Snakemake's report of an error has no traceback: kind and message stand in two lines."""
    said = 'ValueError in file "/w/Snakefile", line 1:\nno such moon\n  File "x", line 1\n'

    assert find_error_sentence(said) == "ValueError: no such moon"
    assert find_error_sentence("WorkflowError:\n    no room\nthe end\n") == "WorkflowError: no room"
