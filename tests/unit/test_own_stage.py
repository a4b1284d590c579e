"""A program of its own runs privately, and its numbers and files become a record."""

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from own_parts import COUNTS, SUM, OwnDesk, end, wait_until
from quantgrid import layout
from quantgrid.judge import judge

WRITES = """
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
open(os.path.join(here, "log.txt"), "a").write("mine\\n")
os.makedirs("runs/deep", exist_ok=True)
os.chdir("runs")
open("deep/fit.txt", "w").write(open("../data/x.csv").read() + sys.argv[1])
out = sys.argv[2]
open(os.path.join(out, "weights.bin"), "wb").write(b"w")
print("loss nothing")
print("loss 0.5 at", 3)
print("loss 0.25 at", 4, end="")
"""
BLOCK = {
    "arguments": "{a} {out}",
    "axes": {"a": [1, 2]},
    "links": ["data"],
    "keep": ["runs", "log.txt"],
    "results": {"stdout": r"loss (?P<loss>[\d.]+) at (?P<step>\d+)"},
}


def test_program_leaves_record_and_files_when_it_writes_beside_itself(tmp_path: Path) -> None:
    """Relative outputs are kept, and the folder that everybody shares stays as it was."""
    desk = OwnDesk.lay(tmp_path, WRITES, BLOCK, {"data/x.csv": "1,2;"})
    before = {p: p.read_bytes() for p in (tmp_path / "code").rglob("*") if p.is_file()}

    code, text = desk.run()

    assert code == 0, text
    record = desk.record()
    assert record["results"] == {"loss": 0.25, "step": 4}
    assert set(record["blobs"]) == {"runs~deep~fit.txt", "log.txt", "weights.bin"}
    assert record["corpus"] is None
    assert "loss 0.5 at 3" in text  # what it prints reaches the log all the same
    assert before == {p: p.read_bytes() for p in (tmp_path / "code").rglob("*") if p.is_file()}


def test_programs_do_not_meet_when_two_run_at_a_time(tmp_path: Path) -> None:
    """Both write the same names at the same time, and each keeps its own."""
    desk = OwnDesk.lay(tmp_path, WRITES, BLOCK, {"data/x.csv": "1,2;"})
    jobs = [desk.job(0), desk.job(1)]

    started = [desk.start(job) for job in jobs]
    texts = [process.communicate(timeout=120)[0] for process in started]

    assert [process.returncode for process in started] == [0, 0], texts
    blobs = [desk.record(job)["blobs"] for job in jobs]
    assert blobs[0]["log.txt"] == blobs[1]["log.txt"]  # "mine" once, not twice
    assert blobs[0]["log.txt"]["size_bytes"] == len("mine\n")
    assert blobs[0]["runs~deep~fit.txt"] != blobs[1]["runs~deep~fit.txt"]


def test_program_is_refused_when_it_writes_linked_data(tmp_path: Path) -> None:
    """Its neighbours read the same bytes."""
    program = 'open("data/x.csv", "w").write("mine");' + SUM
    block = {"arguments": "--a 1", "links": ["data"]}
    desk = OwnDesk.lay(tmp_path, program, block, {"data/x.csv": "12"})

    code, text = desk.run()

    assert code != 0
    assert "changed data that is linked" in text
    assert "x.csv" in text


def test_program_does_not_see_what_lies_about_when_it_starts(tmp_path: Path) -> None:
    """A checkpoint of an earlier call by hand would make another result of the same cell."""
    desk = OwnDesk.lay(tmp_path, COUNTS, {"arguments": "3"})
    (tmp_path / "code" / "ckpt.json").write_text("[2, [1000, 1000]]")

    code, text = desk.run()

    assert code == 0, text
    assert desk.record()["results"] == {"loss": 41 + 82 + 22, "steps": 3}


def test_program_is_refused_when_its_code_changed_after_the_plan(tmp_path: Path) -> None:
    """The fingerprint of another code would stand above its numbers."""
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "--a 1"})
    job = desk.job()
    (tmp_path / "code" / "train.py").write_text(SUM.replace("given.a +", "given.a -"))

    code, text = desk.run(job)

    assert code != 0
    assert "changed after the plan was made" in text


def test_program_is_told_axes_and_places_when_it_starts(tmp_path: Path) -> None:
    """Arguments, environment, seed, device, and the spec for those who ask."""
    program = """
import json, os, sys
spec = json.load(open(sys.argv[4]))["cell"]
told = {"lr": sys.argv[1], "seed": sys.argv[2], "device": sys.argv[3], "mode": os.environ["MODE"]}
told["axes"] = json.dumps(spec["axes"])
told["tmp"] = os.environ["TMPDIR"].startswith(os.path.dirname(os.getcwd()))
json.dump(told, open("result.json", "w"))
"""
    block = {
        "arguments": "{lr} {seed} {device} {spec}",
        "axes": {"lr": [0.1]},
        "seeds": [5],
        "environment": {"MODE": "m-{lr}"},
    }
    desk = OwnDesk.lay(tmp_path, program, block)

    code, text = desk.run()

    assert code == 0, text
    told = desk.record()["results"]
    assert (told["lr"], told["seed"], told["mode"]) == ("0.1", "5", "m-0.1")
    assert (told["axes"], told["tmp"]) == ('{"lr": 0.1}', True)


def test_shell_script_runs_when_it_is_executable(tmp_path: Path) -> None:
    """Any language; what it calls beside itself is declared."""
    script = '#!/bin/sh\necho "step,loss" > m.csv; echo "1,$(cat n.txt)" >> m.csv\n'
    block = {"script": "code/run.sh", "inputs": ["n.txt"], "results": {"last_line": "m.csv"}}
    desk = OwnDesk.lay(tmp_path, SUM, {}, {"run.sh": script, "n.txt": "0.5"})
    path = tmp_path / "code" / "run.sh"
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    desk.declare(block)

    code, text = desk.run()

    assert code == 0, text
    assert desk.record()["results"] == {"step": 1, "loss": 0.5}


@pytest.mark.parametrize("first", ["#!/nowhere/sh", "echo no interpreter is named"])
def test_script_that_cannot_start_is_refused_with_its_first_line(
    tmp_path: Path, first: str
) -> None:
    """The system says `No such file` of a file that is there: what it misses is the interpreter."""
    block = {"script": "code/run.sh", "results": {"last_line": "m.csv"}}
    desk = OwnDesk.lay(tmp_path, SUM, {}, {"run.sh": f"{first}\n"})
    path = tmp_path / "code" / "run.sh"
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    desk.declare(block)

    code, text = desk.run()

    assert code == 78
    assert "refused: run.sh cannot be started" in text
    assert f"seen {first!r}" in text
    assert "first line of the script" in text


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("", "ended without its results"),
        ("open('result.json','w').write('[1]')", "no JSON object"),
        ("open('result.json','w').write('{\"loss\": NaN}')", "the result loss is nan"),
        ("open('result.json','w').write('{}')", "results are not there"),
    ],
)
def test_program_fails_when_its_numbers_are_not_there(
    tmp_path: Path, ending: str, words: str
) -> None:
    """Exit code 0 proves nothing; the message says what was there instead."""
    desk = OwnDesk.lay(tmp_path, f"{ending}\n", {})

    code, text = desk.run()

    assert code != 0
    assert words in text


def test_error_of_the_program_comes_last_when_it_fails(tmp_path: Path) -> None:
    """Nothing of ours hides the program's own words."""
    desk = OwnDesk.lay(tmp_path, 'raise ValueError("the flux is off")\n', {})

    code, text = desk.run()

    assert code != 0
    assert "ValueError: the flux is off" in text
    assert "own_stage" not in text


def test_metrics_reach_the_watch_when_the_program_appends_them(tmp_path: Path) -> None:
    """A loss that is not finite ends the cell with an alarm before the program does."""
    program = """
import time
with open("m.csv", "w") as file:
    file.write("iter,loss\\n0,2.5\\n1,nan\\n")
time.sleep(600)
"""
    metrics = {"file": "m.csv", "step": "iter", "train_loss": "loss"}
    desk = OwnDesk.lay(tmp_path, program, {"metrics": metrics})

    code, text = desk.run()

    assert code == 76, text
    assert "rule non-finite; expected a finite loss; seen nan (m.csv, step 1)" in text


WATCHED = """
import json, os, sys, time
start = int(open("at.txt").read()) if os.path.exists("at.txt") else 0
for step in range(start + 1, 41):
    validation = 2.0 if step % 4 == 0 else ""
    with open("m.csv", "a") as file:
        if file.tell() == 0:
            file.write("iter,loss,held_out,seen\\n")
        file.write(f"{step},{3 - step / 20},{validation},{step * 64}\\n")
    if step % 4 == 0:
        with open("at.txt.new", "w") as file:
            file.write(str(step))
        os.replace("at.txt.new", "at.txt")
        time.sleep(0.3)
    while step == 36 and not os.path.exists(sys.argv[1]):
        time.sleep(0.02)  # a test says when it may come to its end
json.dump({"loss": 1.0}, open("result.json", "w"))
"""
NAMED: dict[str, Any] = {
    "arguments": os.devnull,
    "resume": {"files": ["at.txt"]},
    "metrics": {
        "file": "m.csv",
        "step": "iter",
        "train_loss": "loss",
        "validation_loss": "held_out",
        "tokens": "seen",
    },
}


def test_record_tells_what_the_watch_found_however_often_the_program_was_killed(
    tmp_path: Path,
) -> None:
    """Curve and finding are those of an undisturbed run, and the judge doubts the numbers."""
    calm = OwnDesk.lay(tmp_path / "calm", WATCHED, NAMED)
    code, text = calm.run()
    assert code == 0, text
    gate = tmp_path / "gate"
    desk = OwnDesk.lay(tmp_path / "rough", WATCHED, NAMED | {"arguments": str(gate)})
    process = desk.start(desk.job())
    wait_until(lambda: len(desk.kept()) == 2, "two checkpoints")
    end(process, signal.SIGKILL)
    gate.touch()
    code, text = desk.run()
    assert code == 0, text

    told = desk.record()["watch"]

    assert told == calm.record()["watch"]
    assert [point[:2] for point in told["curve"]] == [[n, n * 64] for n in range(4, 41, 4)]
    ((rule, step, *_),) = told["findings"]
    assert (rule, step) == ("gap", 28)
    judgement = judge(desk.record())
    assert judgement.word == "SUSPECT"
    assert judgement.reason.startswith("gap: ")


def test_gap_stops_a_program_when_the_policy_says_so(tmp_path: Path) -> None:
    """By the column names of the block; its author knows what they mean."""
    desk = OwnDesk.lay(tmp_path, WATCHED, NAMED)

    code, text = desk.run(options=("--watch", '{"policy": {"gap": "stop"}}'))

    assert code == 76, text
    assert "rule gap" in text
    assert "(m.csv, step 28)" in text


def test_program_is_ended_when_its_metrics_fall_silent(tmp_path: Path) -> None:
    """The block bounds the silence; without a bound a program may be as slow as it is."""
    program = "import time\nopen('m.jsonl', 'w').write('{}\\n')\ntime.sleep(600)\n"
    metrics = {"file": "m.jsonl", "train_loss": "loss", "stall_s": 1}
    desk = OwnDesk.lay(tmp_path, program, {"metrics": metrics})

    code, text = desk.run()

    assert code == 76, text
    assert "rule stall; expected a row within 1 s" in text


# -- interrupted -----------------------------------------------------------------------------------

RESUMED: dict[str, Any] = {"arguments": "100", "resume": {"files": ["ckpt.json"]}}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_result_is_that_of_an_undisturbed_run_when_interrupted(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The next attempt goes on from the newest whole checkpoint."""
    calm = OwnDesk.lay(tmp_path / "calm", COUNTS, RESUMED)
    code, text = calm.run()
    assert code == 0, text
    desk = OwnDesk.lay(tmp_path / "rough", COUNTS, RESUMED)

    for _ in range(2):
        before = desk.kept()
        process = desk.start(desk.job())
        wait_until(lambda before=before: set(desk.kept()) - set(before), "a new checkpoint")
        end(process, number)
        assert process.returncode != 0
    code, text = desk.run()

    assert code == 0, text
    assert "starts at 0" not in text
    assert desk.record()["results"] == calm.record()["results"]


def test_checkpoint_is_taken_from_before_when_the_newest_is_damaged(tmp_path: Path) -> None:
    """A digest tells, and the older copy has its turn."""
    desk = OwnDesk.lay(tmp_path, COUNTS, RESUMED)
    process = desk.start(desk.job())
    wait_until(lambda: len(desk.kept()) == 2, "two checkpoints")
    end(process, signal.SIGKILL)
    newest = max((path.parent for path in desk.kept()), key=lambda folder: int(folder.name))
    (newest / layout.OWN_FOLDER / "ckpt.json").write_text("[999, []]")

    code, text = desk.run()

    assert code == 0, text
    assert f"checkpoint {newest.name} is damaged" in text
    assert desk.record()["results"]["steps"] == 100


def test_torn_checkpoint_is_not_kept_when_the_program_is_killed_while_it_writes(
    tmp_path: Path,
) -> None:
    """A file that is open for writing is no checkpoint."""
    program = COUNTS.replace(
        "        json.dump([step, trace], file)\n",
        "        text = json.dumps([step, trace])\n"
        "        file.write(text[:5]); file.flush()\n"
        "        time.sleep(1.5 if step == 3 and not os.path.exists('late') else 0)\n"
        "        file.write(text[5:])\n",
    )
    desk = OwnDesk.lay(tmp_path, program, {"arguments": "6", "resume": {"files": ["ckpt.json"]}})
    work = tmp_path / "work"

    process = desk.start(desk.job())
    wait_until(lambda: [p for p in work.rglob("ckpt.json") if p.read_bytes() == b"[3, ["], "torn")
    end(process, signal.SIGKILL)

    for path in desk.kept():
        json.loads((path.parent / layout.OWN_FOLDER / "ckpt.json").read_bytes())
    code, text = desk.run()
    assert code == 0, text
    assert desk.record()["results"]["steps"] == 6


def test_program_is_not_finished_when_it_was_asked_to_stop(tmp_path: Path) -> None:
    """Results that it wrote on its way out are those of a part of the work."""
    program = """
import json, signal, sys, time
def leave(*_):
    json.dump({"loss": 9.0}, open("result.json", "w"))
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
open("ready", "w")
time.sleep(600)
"""
    desk = OwnDesk.lay(tmp_path, program, {})
    process = desk.start(desk.job())
    wait_until(lambda: list((tmp_path / "work").rglob("ready")), "the program is ready")

    end(process, signal.SIGTERM)

    assert process.returncode != 0
    assert not list((tmp_path / "archive").rglob(layout.RECORD_FILE))


def test_program_dies_when_the_runner_is_killed(tmp_path: Path) -> None:
    """Nobody computes for a runner that is gone."""
    program = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    desk = OwnDesk.lay(tmp_path, program, {})
    process = desk.start(desk.job())
    work = tmp_path / "work"
    wait_until(lambda: [p for p in work.rglob("pid") if p.read_text()], "the program runs")
    pid = int(next(work.rglob("pid")).read_text())

    process.kill()  # the runner alone, not its group
    process.wait(180)

    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the program is gone")
