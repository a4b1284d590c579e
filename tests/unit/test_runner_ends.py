"""However a job ends, the archive has whole records and a person knows why."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core_parts import BOUND_S, CELL, KILLED, MAKE, MEASURE, Desk, cell_job, killer, strip
from quantgrid import layout, receipts, workspace
from quantgrid.controller import Controller
from quantgrid.errors import Fault, Interrupted
from quantgrid.remembered import Remembered

SAY = """
with open({log!r}, "a") as log:
    log.write("{name}\\n")
"""


# -- ends of scripts ------------------------------------------------------------------------------

ENDS = {
    "raise SystemExit(75)": (75, ""),
    "raise SystemExit(78)": (78, ""),
    "raise SystemExit(76)": (76, ""),
    "raise SystemExit(71)": (71, ""),
    "raise SystemExit(3)": (70, "ended with exit code 3"),
    "raise SystemExit('no such thing')": (70, "no such thing"),
    "raise KeyError('lost')": (70, "failed: n0-t1k-s0/rtn: KeyError: 'lost'; seen code"),
    "from quantgrid.errors import CorpusRefusal; raise CorpusRefusal('no', seen=3)": (
        78,
        "refused: no; seen 3.",
    ),
    "raise OSError(28, 'No space left on device', 'state')": (71, "No space left on device"),
    "import os; os.kill(os.getpid(), 9)": (75, "ended by SIGKILL"),
    "import os; os.abort()": (70, "ended by SIGABRT"),
    "def f(:": (70, "SyntaxError"),
}


@pytest.mark.parametrize("end", ENDS)
def test_runner_ends_as_its_script_when_that_fails(tmp_path: Path, end: str) -> None:
    """Codes of the contract go on to Snakemake, others are faults; what was said is seen once."""
    desk = Desk.lay(tmp_path, quantise=end)

    code, said = desk.call(cell_job())

    assert (code, ENDS[end][1] in said) == (ENDS[end][0], True), said
    assert not (tmp_path / "r.json").exists()
    assert desk.archive.index() == frozenset()
    assert desk.debris() == []


@pytest.mark.parametrize("end", ["raise SystemExit(1)", "raise KeyError", "raise SystemExit(75)"])
def test_runner_deposits_nothing_when_a_script_fails_after_its_result(
    tmp_path: Path, end: str
) -> None:
    """A script that ends badly has made nothing, though it wrote a result before."""
    desk = Desk.lay(tmp_path, quantise=MAKE + end)

    code, _ = desk.call(cell_job())

    assert code in {70, 75}
    assert desk.archive.index() == frozenset()


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise SystemExit(78)", 78), ("raise KeyError", 70), ("os.kill(os.getpid(), 9)", 75)],
)
def test_runner_keeps_the_weights_when_their_evaluation_dies(
    tmp_path: Path, end: str, code: int
) -> None:
    """What was trained is deposited; the next attempt evaluates only."""
    log, job = str(tmp_path / "log"), cell_job()
    desk = Desk.lay(tmp_path, quantise=SAY.format(log=log, name="quantise") + MAKE)
    said = SAY.format(log=log, name="evaluate")
    desk.change("evaluate", f"import os\n{said}{end}")

    assert desk.call(job)[0] == code
    assert desk.archive.index() == {job.stages[0].record}
    assert not (tmp_path / "r.json").exists()

    desk.change("evaluate", said + MEASURE)
    Remembered(tmp_path, desk.archive.store).forget(job.cell, "evaluate", job.last.fingerprint)
    assert desk.call(job)[0] == 0
    assert Path(log).read_text().split() == ["quantise", "evaluate", "evaluate"]
    assert desk.archive.record(job.last.record)["results"]["loss"] == 1.5
    assert json.loads((tmp_path / "r.json").read_bytes())["record"] == job.last.record


def test_runner_is_a_fault_when_nothing_was_handed_back(tmp_path: Path) -> None:
    """A script that ends well without a result has made nothing, and nothing goes on from it."""
    desk = Desk.lay(tmp_path, quantise="pass", evaluate="print('started')")

    code, said = desk.call(cell_job())

    assert code == Fault.exit_code
    assert "quantise.py ended without a result" in said
    assert "started" not in said
    assert desk.archive.index() == frozenset()


# -- the command ----------------------------------------------------------------------------------


def test_run_publishes_a_receipt_when_the_job_is_done(tmp_path: Path) -> None:
    """The receipt names record, digest and archive; the command says nothing of its own."""
    desk, job = Desk.lay(tmp_path), cell_job()

    code, said = desk.call(job)

    receipt = json.loads((tmp_path / "r.json").read_bytes())
    record = desk.archive.record(job.last.record)
    assert (code, said) == (0, "")
    assert receipt == {
        "record": job.last.record,
        "digest": record["digest"],
        "archive": desk.archive.identity(),
    }
    assert list(receipts.receipts(tmp_path)) == []


def test_run_refuses_when_the_job_is_none(tmp_path: Path) -> None:
    """A job that cannot be read is refused before anything is made."""
    desk = Desk.lay(tmp_path)
    command = [part if not part.startswith("{") else "{}" for part in desk.command(cell_job())]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_S, check=False
    )

    assert done.returncode == 78
    assert done.stderr.startswith("refused: this is not a job")
    assert not (tmp_path / "archive").exists()


def test_run_is_a_fault_when_a_file_is_the_archive(tmp_path: Path) -> None:
    """An archive that cannot be one is told before a script starts."""
    desk = Desk.lay(tmp_path, quantise="raise SystemExit(3)")
    (tmp_path / "archive").write_text("")

    code, said = desk.call(cell_job())

    assert code == 71
    assert "Not a directory" in said
    assert "Traceback" not in said


_LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("room", [0, 100, 1500])
def test_run_leaves_whole_records_when_there_is_no_room(tmp_path: Path, room: int) -> None:
    """Wherever the room ends, the fault is the machine's; with room again the same call is done."""
    desk, job = Desk.lay(tmp_path), cell_job()
    command = [sys.executable, "-c", _LIMITED, str(room), *desk.command(job)]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_S, check=False
    )

    assert done.returncode == 71, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert desk.debris() == []
    for key in desk.archive.index():
        assert desk.archive.record(key)
    assert desk.call(job)[0] == 0
    assert len(desk.archive.index()) == 2


# -- signals --------------------------------------------------------------------------------------

_WAITING = """
import os, signal, subprocess, sys, time
from pathlib import Path
from quantgrid.cell import Cell
cell = Cell.from_environment()
grandchild = subprocess.Popen(["sleep", "600"])
{prepare}
cell.progress.write_text(f"{{os.getpid()}} {{grandchild.pid}}")
time.sleep(600)
"""


def _until(condition: Callable[[], object]) -> None:
    """Wait for what another process does; bounded."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _waiting(root: Path, prepare: str = "") -> "tuple[Desk, subprocess.Popen[str], list[int]]":
    """A runner whose script waits, with a child of its own; their process ids."""
    desk = Desk.lay(root, quantise=_WAITING.format(prepare=prepare))
    runner = desk.start(cell_job())
    _until(lambda: desk.progress.exists() and desk.progress.read_text())
    return desk, runner, [int(pid) for pid in desk.progress.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_whole_group_when_the_runner_gets_one(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The script and what it started end; one sentence says by which signal; no debris is left."""
    desk, runner, pids = _waiting(tmp_path)

    runner.send_signal(number)
    said, _ = runner.communicate(timeout=BOUND_S)

    assert runner.returncode == Interrupted.exit_code
    assert said.splitlines() == [_interrupted_by(number)]
    _until(lambda: not any(map(_is_running, pids)))
    assert desk.debris() == []


def _interrupted_by(number: signal.Signals) -> str:
    return (
        f"interrupted: {CELL} was ended by {number.name}, no checkpoint was saved yet. "
        "Run the same command again; it begins this stage anew."
    )


@pytest.mark.nightly
@pytest.mark.parametrize("eighth", range(8))
def test_interrupt_is_one_sentence_when_it_meets_an_import(tmp_path: Path, eighth: int) -> None:
    """Ctrl-C anywhere between the start of the script's process and the end of `import torch`."""
    begun = tmp_path / "begun"
    script = f"open({str(begun)!r}, 'w').close()\nimport torch\nimport time\ntime.sleep(600)"
    desk = Desk.lay(tmp_path, quantise=script)
    runner = desk.start(cell_job())
    if eighth:
        _until(begun.exists)
        time.sleep(0.25 * (eighth - 1))
    else:
        _until(lambda: list((tmp_path / layout.ATTEMPTS).glob("*/*/spec.json")))

    runner.send_signal(signal.SIGINT)
    said, _ = runner.communicate(timeout=BOUND_S)

    if eighth or runner.returncode != 130:  # 130: the script was not started yet
        assert runner.returncode == Interrupted.exit_code
        assert said.splitlines() == [_interrupted_by(signal.SIGINT)]
    assert "Traceback" not in said
    assert desk.debris() == []


def test_signals_let_a_script_save_when_it_wants_to(tmp_path: Path) -> None:
    """A script that catches SIGTERM and ends with 75 ends the runner with 75."""
    desk, runner, _ = _waiting(tmp_path, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))")

    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=BOUND_S)

    assert runner.returncode == 75
    assert desk.debris() == []


def test_script_dies_with_its_runner_when_that_is_killed(tmp_path: Path) -> None:
    """Nobody computes for a dead runner; the next controller clears what it left."""
    desk, runner, pids = _waiting(tmp_path)

    runner.kill()
    runner.wait(timeout=BOUND_S)
    _until(lambda: not any(map(_is_running, pids)))
    runner.communicate(timeout=BOUND_S)

    assert runner.returncode == KILLED
    assert len(list((tmp_path / layout.ATTEMPTS).iterdir())) == 1
    Controller(tmp_path, desk.archive.store).start()
    assert desk.debris() == []
    assert desk.archive.index() == frozenset()


def test_attempt_stays_when_its_runner_lives(tmp_path: Path) -> None:
    """A controller that starts beside a living runner takes nothing from under it."""
    desk, runner, _ = _waiting(tmp_path)

    assert workspace.clear_dead(tmp_path) == 0
    assert len(list((tmp_path / layout.ATTEMPTS).iterdir())) == 1

    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=BOUND_S)
    assert desk.debris() == []


# -- SIGKILL at each publication ------------------------------------------------------------------

POINTS = [f"runner:{at}" for at in range(1, 10)] + [f"stages:{at}" for at in range(1, 4)]
"""Runner: id of the copy, two claims, link, identity, blob, two records, receipt.

Scripts: file, two results.
"""


@pytest.mark.parametrize("point", POINTS)
def test_job_ends_the_same_when_it_is_killed_anywhere(tmp_path: Path, point: str) -> None:
    """SIGKILL before any publication, then the same command: the same archive and no debris."""
    job, environment = cell_job(), killer(tmp_path / "k")
    calm, hurt = Desk.lay(tmp_path / "calm"), Desk.lay(tmp_path / "hurt")
    assert calm.call(job) == (0, "")

    code, _ = hurt.call(job, KILL_AT=point, **environment)

    assert code == (KILLED if point.startswith("runner") else Interrupted.exit_code)
    assert not (hurt.root / "r.json").exists()
    for key in hurt.archive.index():
        assert hurt.archive.record(key)

    Controller(hurt.root, hurt.archive.store).start()
    assert [name for name in hurt.debris() if layout.STATE not in name.split("/")] == []
    assert hurt.call(job) == (0, "")
    assert hurt.debris() == []
    assert hurt.archive.index() == calm.archive.index()
    for key in calm.archive.index():
        assert strip(hurt.archive.record(key)) == strip(calm.archive.record(key))
    assert set(hurt.archive.store.list("blobs")) == set(calm.archive.store.list("blobs"))


def test_points_are_all_there_are_when_counted(tmp_path: Path) -> None:
    """One more kill than there are publications kills nobody: the list above is complete."""
    desk, environment = Desk.lay(tmp_path / "copy"), killer(tmp_path / "k")
    for point in ("runner:10", "stages:4"):
        assert desk.call(cell_job(), KILL_AT=point, **environment) == (0, "")
        (desk.root / "r.json").unlink()
        desk = Desk.lay(tmp_path / point)
