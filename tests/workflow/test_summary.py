"""At its end a run says what it made, restored and refused, what it did cost, and what is next."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from detached import await_true
from working_copy import FEW, Outcome, WorkingCopy, table

QAT = "n0-t20k-s0/qat-ternary-row-absmean"


def block(said: Outcome) -> list[str]:
    """The summary, which is the last that a person sees."""
    lines = said.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("summary ")]
    assert len(starts) == 1, said.text[-3000:]
    return lines[starts[0] :]


def test_summary_says_what_failed_what_was_made_and_what_came_back(
    fresh: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed run, the one after it was mended, and one that only restores: one form of words."""
    monkeypatch.setenv("LIGHT_FAIL", "qat:raise ValueError('no such scale')")
    said = fresh.snakemake(grid=FEW, code=1)
    failed = block(said)
    assert said.text.count("failed: ") == 1  # the sentence, where it happened
    assert said.text.count("no such scale") == 2  # and what it was, in the summary
    assert failed[0] == f"summary   {FEW}: not done; 2 made, 1 still to do"
    assert failed[1] == f"failed    {QAT}, qat"
    assert failed[2] == "          ValueError: no such scale"
    assert failed[3].startswith("          log: logs/")
    assert "cost      nothing was rented" in failed
    steps = failed[failed.index("next      1. See the whole of it:") :]
    assert steps[1] == f"             quantgrid why {QAT}"
    assert steps[2] == "          2. Once it is mended, let it be tried again:"
    assert steps[3] == f"             quantgrid retry {QAT}"
    assert failed[-1].startswith("again     snakemake --profile profiles/local")

    monkeypatch.setenv("LIGHT_FAIL", "")
    fresh.quantgrid("retry", QAT)
    mended = block(fresh.snakemake(grid=FEW))
    assert mended[0] == f"summary   {FEW}: done; 1 made, 2 there before"
    assert mended[-1] == f"next      Look at results/{FEW}.html"

    shutil.rmtree(fresh / "results")
    restored = block(fresh.snakemake(table(FEW), grid=FEW))
    assert restored[0] == f"summary   {FEW}: done; 3 restored"


def test_summary_says_that_a_run_was_stopped_and_goes_on(fresh: WorkingCopy) -> None:
    """After Ctrl-C: nothing failed, what was saved is kept, and the same command goes on."""
    words = ["--profile", "profiles/local", "--config", f"grid={FEW}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *words],
        cwd=fresh.root,
        env={**os.environ, "LIGHT_WORK_S": "1", "LIGHT_UNTIL": str(fresh / "never")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        await_true(
            lambda: any(fresh.root.glob("volume/state/*/*/*.link.json")), "the trunk saved nothing"
        )
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=180)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    told = block(Outcome(process.returncode, said))
    assert told[0] == f"summary   {FEW}: stopped; 3 still to do"
    assert told[-1] == f"again     snakemake {' '.join(words)}"


def test_interrupt_is_a_sentence_when_the_plan_is_still_made(fresh: WorkingCopy) -> None:
    """Who reads the plan line and thinks better of it sees no place in anybody's code."""
    with (fresh / "Snakefile").open("a") as rules:
        rules.write("import signal\nPath('is-planned').touch()\nsignal.pause()\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--profile", "profiles/local"],
        cwd=fresh.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        await_true((fresh / "is-planned").exists, "nothing was planned")
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=180)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    assert process.returncode == 130
    assert said.endswith("interrupted: nothing was started.  The same command begins again.\n")
    assert "Traceback" not in said
