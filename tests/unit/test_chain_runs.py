"""Real scripts under a cap: links follow each other to one result, and nothing is left over."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from core_parts import BOUND_S, CELL, KILLED, MAKE, Desk, job_of, stage
from quantgrid import contract, descendants, failures, layout, links
from quantgrid.remembered import Remembered

STEPS = """
import json, os, signal, sys, time
from pathlib import Path
from quantgrid import atomic
from quantgrid.cell import Cell
cell = Cell.from_environment()
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
saved = cell.state / "tokens"
resumed = tokens = int(saved.read_text()) if saved.exists() else 0
saves = 0
end = time.monotonic() + float(os.environ["QG_DEADLINE_S"] or "inf") - 0.5
while tokens < {steps}:
    time.sleep(0.05)  # a step: the only thing here that stands for work
    tokens += 1
    atomic.publish(saved, str(tokens).encode())
    saves += 1
    told = {{"tokens": tokens, "checkpoint": f"at-{{tokens}}", "saves": saves, "save_s": 0.01}}
    if {tells}:
        atomic.publish_json(Path(os.environ["QG_LINK"]), told)
    if stop or ({own_clock} and time.monotonic() > end):
        sys.exit(75)
atomic.publish(cell.out / "weights.bin", str(tokens).encode())
cell.finish({{"tokens": tokens}})
result = json.loads(cell.result.read_bytes())
result["chain"] = {{"resumed_tokens": resumed, "saves": saves, "notes": ["a note"]}}
atomic.publish_json(cell.result, result)
"""


def steps(number: int, *, tells: bool = True, own_clock: bool = True) -> str:
    """A script of so many steps of 0.05 s, which saves at each."""
    return STEPS.format(steps=number, tells=tells, own_clock=own_clock)


WEIGHTS = stage("quantise", "weights")
JOB = job_of(WEIGHTS)
STATE = layout.state_folder(Path("v"), CELL, "quantise", WEIGHTS.fingerprint)
CAPPED = ("--cap-s", "5", "--grace-s", "0.5")
"""Several times what an interpreter takes to start on a busy machine."""
STEPS_OF_TWO = 130
"""More steps than a link has time for."""
CHAINED = (*CAPPED, "--chains")


def failure_of(desk: Desk) -> dict[str, Any]:
    """The failure that a desk remembers."""
    found = failures.find(desk.root, CELL, "quantise", WEIGHTS.fingerprint)
    assert found is not None
    return dict(found)


def until(condition: Callable[[], object]) -> None:
    """Wait for what another process does; bounded."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


# -- the cap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tells", "own_clock"), [(True, True), (False, True), (True, False)], ids=str
)
def test_chain_ends_in_one_result_when_a_cap_ends_its_links(
    tmp_path: Path, tells: bool, own_clock: bool
) -> None:
    """Links follow by themselves, whether the script watches the clock or waits for SIGTERM."""
    desk = Desk.lay(tmp_path, quantise=steps(STEPS_OF_TWO, tells=tells, own_clock=own_clock))

    code, said = desk.call(JOB, options=CHAINED)

    record = desk.archive.record(WEIGHTS.record)
    ends = [link["end"] for link in record["links"]]
    assert code == 0, said
    assert record["results"] == {"tokens": STEPS_OF_TWO}
    assert len(ends) >= 2
    assert set(ends[:-1]) <= ({links.CHECKPOINTED, links.CAP} if own_clock else {links.CAP})
    assert ends[-1] == links.DONE
    news = [link["is_newer"] for link in record["links"]]
    assert any(news)
    assert not any(not one and not next_ for one, next_ in itertools.pairwise(news))
    assert record["counters"] == {"links": len(ends), "interruptions": 0, "failures": 0}
    last = record["links"][-1]
    assert last["resumed_tokens"] + last["saves"] == STEPS_OF_TWO
    assert last["notes"] == ["a note"]
    if tells:
        told = [link["tokens"] for link in record["links"] if "tokens" in link]
        assert told[0] > 0
        assert told == sorted(told)
    assert said.count("the next one starts") == len(ends) - 1
    assert not (tmp_path / "v" / layout.STATE / CELL).exists()


def test_chain_leaves_the_next_link_to_others_where_they_start_it(tmp_path: Path) -> None:
    """Elsewhere the runner ends with 75, a file carries the code, and the next call goes on."""
    desk = Desk.lay(tmp_path, quantise=steps(STEPS_OF_TWO))
    codes = []
    while not codes or (codes[-1] == 75 and len(codes) < 20):
        code, said = desk.call(JOB, options=CAPPED)
        codes.append(code)
        if code == 75:
            assert said.startswith("checkpointed: link"), said
            end = json.loads(desk.progress.with_suffix(".end").read_bytes())
            assert end["exit_code"] == 75
            assert end["sentence"] in said

    assert codes[-1] == 0
    assert len(codes) >= 2
    assert not desk.progress.with_suffix(".end").exists()
    counters = desk.archive.record(WEIGHTS.record)["counters"]
    assert counters == {"links": len(codes), "interruptions": 0, "failures": 0}


def test_chain_stops_when_two_links_saved_nothing(tmp_path: Path) -> None:
    """A clear fault after two links; the next call pays nothing, and `retry` tries again."""
    started = tmp_path / "started"
    script = f"open({str(started)!r}, 'a').write('x')\nimport time\ntime.sleep(600)"
    desk = Desk.lay(tmp_path, quantise=script)
    options = ("--cap-s", "5", "--grace-s", "0.2", "--chains")

    code, said = desk.call(JOB, options=options)

    assert code == 70
    assert said.splitlines()[-1].startswith(
        f"failed: {CELL} ran two links and left no newer checkpoint, so a third would not help"
    )
    assert len(started.read_text()) == 2
    failure = failure_of(desk)
    assert (failure["kind"], failure["class"]) == ("no progress", "code")

    code, said = desk.call(JOB, options=options)
    assert code == 78
    assert said.startswith(
        f"refused: {CELL} failed before and would fail again (code): {CELL} ran two links and left "
    )
    assert f"`quantgrid retry {CELL}`" in said
    assert len(started.read_text()) == 2

    Remembered(tmp_path, desk.archive.store).forget(CELL, "quantise", WEIGHTS.fingerprint)
    desk.change("quantise", MAKE)
    assert desk.call(JOB, options=options)[0] == 0
    ends = [link["end"] for link in desk.archive.record(WEIGHTS.record)["links"]]
    assert ends == [links.CAP, links.CAP, links.DONE]


def test_script_is_killed_when_it_ignores_the_deadline(tmp_path: Path) -> None:
    """SIGTERM at the deadline, SIGKILL after the grace; the link counts as ended by the cap."""
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    desk = Desk.lay(tmp_path, quantise=deaf)

    code, said = desk.call(JOB, options=("--cap-s", "5", "--grace-s", "0.2"))

    links_ = json.loads(layout.links_file(tmp_path / STATE).read_bytes())
    assert code == 75
    assert "ended by its cap, no checkpoint was saved yet" in said
    assert [(each["end"], each["exit_code"]) for each in links_] == [(links.CAP, KILLED)]


def test_deadline_counts_from_the_platforms_clock_when_that_is_told(tmp_path: Path) -> None:
    """A job that started late in its allocation has less time than its cap."""
    look = 'import os, sys\nprint("left", os.environ["QG_DEADLINE_S"], file=sys.stderr)\n'
    desk = Desk.lay(tmp_path, quantise=look + MAKE)
    soon = str(time.time() + 500)

    _, said = desk.call(JOB, options=("--cap-s", "86400"), QG_ENDS_AT=soon)

    left = float(said.split()[1])
    assert 400 < left < 500 - 30


def test_time_goes_faster_when_a_factor_says_so(tmp_path: Path) -> None:
    """A declared factor scales cap and grace alike."""
    look = (
        'import os, sys\nprint(os.environ["QG_DEADLINE_S"], os.environ["QG_GRACE_S"], '
        "file=sys.stderr)\n"
    )
    desk = Desk.lay(tmp_path, quantise=look + MAKE)
    options = ("--cap-s", "86400", "--grace-s", "600", "--clock-factor", "600")

    _, said = desk.call(JOB, options=options)

    left, grace = said.split()
    assert 120 < float(left) < 142.9
    assert grace == "1"


# -- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interruption_is_no_failure_when_state_was_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The sentence says what is kept; the same command goes on and counts the interruption."""
    go = tmp_path / "go"
    script = (
        steps(40)
        .replace("stop = []", "stop = []\nsignal.signal(signal.SIGINT, lambda *_: stop.append(1))")
        .replace(
            "    tokens += 1\n",
            f"    while tokens == 3 and not stop and not Path({str(go)!r}).exists():\n"
            "        time.sleep(0.01)  # until the signal came\n"
            "    tokens += 1\n",
        )
    )
    desk = Desk.lay(tmp_path, quantise=script)
    ours = signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore a hang-up
    runner = desk.start(JOB, options=CHAINED)
    signal.signal(number, ours)
    until(layout.link_file(tmp_path / STATE).exists)

    runner.send_signal(number)
    said, _ = runner.communicate(timeout=BOUND_S)

    assert runner.returncode == 75
    assert said.startswith(f"interrupted: {CELL} was ended by")
    assert re.search(r"state kept at \d+ tokens", said)
    assert list(failures.all_of(tmp_path)) == []
    go.touch()
    assert desk.call(JOB)[0] == 0
    record = desk.archive.record(WEIGHTS.record)
    assert record["counters"] == {"links": 1, "interruptions": 1, "failures": 0}
    assert record["links"][-1]["resumed_tokens"] > 0


def test_deaf_script_is_killed_when_the_grace_after_a_signal_is_over(tmp_path: Path) -> None:
    """Who asked a runner to stop waits no longer than the platform would."""
    ready = tmp_path / "ready"
    deaf = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(ready)!r}, 'w').close()\ntime.sleep(600)"
    )
    desk = Desk.lay(tmp_path, quantise=deaf)
    runner = desk.start(JOB, options=("--grace-s", "0.3"))
    until(ready.exists)

    runner.send_signal(signal.SIGTERM)
    said, _ = runner.communicate(timeout=BOUND_S)

    assert runner.returncode == 75, said
    links_ = json.loads(layout.links_file(tmp_path / STATE).read_bytes())
    assert [(each["end"], each["exit_code"]) for each in links_] == [(links.INTERRUPTED, KILLED)]


def test_killed_runner_counts_as_interruption_when_the_next_one_ends(tmp_path: Path) -> None:
    """The attempt that could not close its link is in the record, with its newest checkpoint."""
    desk = Desk.lay(tmp_path, quantise=steps(40))
    runner = desk.start(JOB)
    until(layout.link_file(tmp_path / STATE).exists)

    runner.kill()
    runner.communicate(timeout=BOUND_S)

    assert desk.call(JOB)[0] == 0
    record = desk.archive.record(WEIGHTS.record)
    assert [link["end"] for link in record["links"]] == [links.INTERRUPTED, links.DONE]
    assert record["links"][0]["tokens"] > 0
    assert record["links"][0]["attempt"] != record["links"][1]["attempt"]


# -- what a script starts -------------------------------------------------------------------------

_LEAVES = """
import os, subprocess, sys, time
from pathlib import Path
from quantgrid.cell import Cell
cell = Cell.from_environment()
{start}
Path({pids!r}).write_text(str(child))
{end}
"""
_START = {
    "child": 'child = subprocess.Popen(["sleep", "600"]).pid',
    "session": 'child = subprocess.Popen(["sleep", "600"], start_new_session=True).pid',
    "daemon": (
        "out = subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 & echo $!'], "
        "capture_output=True, text=True)\nchild = int(out.stdout)"
    ),
}
_END = {
    "done": MAKE,
    "exit": "os._exit(3)",
    "killed": "os.kill(os.getpid(), 9)",
    "runner killed": "os.kill(os.getppid(), 9)\ntime.sleep(600)",
}


def is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


@pytest.mark.parametrize("end", _END)
@pytest.mark.parametrize("start", _START)
def test_nothing_of_a_script_survives_its_attempt(tmp_path: Path, start: str, end: str) -> None:
    """However it left its group and however the attempt ended."""
    pids = tmp_path / "pids"
    script = _LEAVES.format(start=_START[start], pids=str(pids), end=_END[end])
    desk = Desk.lay(tmp_path, quantise=script)

    desk.call(JOB)

    child = int(pids.read_text())
    try:
        until(lambda: not is_running(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_marked_processes_are_found_when_they_left_their_group() -> None:
    """The mark is inherited by all that a script starts."""
    name = f"attempt-{os.getpid()}"
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, contract.ATTEMPT: name},
        start_new_session=True,
    )
    try:
        until(lambda: descendants.marked(name) == [child.pid])
        assert descendants.marked("another") == []
        descendants.end(None, name)
        assert child.wait(BOUND_S) == KILLED
    finally:
        child.kill()
        child.wait()
