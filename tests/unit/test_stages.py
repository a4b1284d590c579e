"""Scripts of one job run one after the other in one interpreter, as if each were alone."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core_parts import BOUND_S
from quantgrid import contract
from quantgrid.errors import Fault

DONE = """
import os, sys
from pathlib import Path
assert __name__ == "__main__"
print(os.environ["QG_STAGE"], Path(sys.argv[0]).name, len(sys.argv), os.getcwd(), flush=True)
Path(os.environ["QG_RESULT"]).write_text("{}")
"""


def _call(
    folder: Path, *scripts: str, runner: int | None = None, deadline: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run scripts `0.py`, `1.py`, ... under contracts of their own."""
    arguments = []
    for number, text in enumerate(scripts):
        desk = folder / f"desk{number}"
        desk.mkdir()
        script, environment = folder / f"{number}.py", desk / "contract.json"
        script.write_text(text)
        variables = {
            contract.WORK: str(desk),
            contract.RESULT: str(desk / "result.json"),
            contract.STAGE: f"stage{number}",
            contract.DEADLINE: "",
            contract.ENDS_AT: str(time.monotonic() + float(deadline)) if deadline else "",
        }
        environment.write_text(json.dumps(variables))
        arguments += [str(script), str(environment)]
    command = [sys.executable, "-P", "-m", "quantgrid.stages", str(runner or os.getpid())]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def test_stages_run_in_order_when_each_is_done(tmp_path: Path) -> None:
    """Each script is `__main__`, alone on its command line, in its own directory and stage."""
    done = _call(tmp_path, DONE, DONE)

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"stage0 0.py 1 {tmp_path / 'desk0'}",
        f"stage1 1.py 1 {tmp_path / 'desk1'}",
    ]


@pytest.mark.parametrize(("deadline", "is_shorter"), [("100", True), ("", False)])
def test_stages_take_what_earlier_ones_used_from_the_deadline(
    tmp_path: Path, deadline: str, is_shorter: bool
) -> None:
    """A deadline counts from the start of each script; no deadline stays none."""
    say = DONE + "print('left', os.environ['QG_DEADLINE_S'] or 'inf', flush=True)"

    done = _call(tmp_path, say, say, deadline=deadline)

    left = [float(line.split()[1]) for line in done.stdout.splitlines() if line[:4] == "left"]
    assert len(left) == 2
    assert (left[1] < left[0] < 100) is is_shorter


@pytest.mark.parametrize("code", [1, 70, 75, 78, 200])
def test_stages_stop_when_one_fails(tmp_path: Path, code: int) -> None:
    """The first code that is not 0 ends the job, and its stage has no result."""
    done = _call(tmp_path, DONE, DONE + f"sys.exit({code})", DONE)

    assert done.returncode == code
    assert (tmp_path / "desk0" / "result.json").exists()
    assert not (tmp_path / "desk1" / "result.json").exists()
    assert "stage2" not in done.stdout


def test_stages_stop_when_one_has_no_result(tmp_path: Path) -> None:
    """A script that ends well and hands nothing back is a fault that names it."""
    done = _call(tmp_path, "pass", DONE)

    assert done.returncode == Fault.exit_code
    assert done.stderr == f"failed: {tmp_path / '0.py'} ended without a result.\n"
    assert done.stdout == ""


def test_stages_tell_the_error_last_when_a_script_raises(tmp_path: Path) -> None:
    """The traceback is evidence; the last line is the sentence for a person."""
    done = _call(tmp_path, "def f():\n    raise ValueError('odd')\nf()")

    assert done.returncode == Fault.exit_code
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("\nValueError: odd\n")


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [("sys.exit()", 0, ""), ("sys.exit(None)", 0, ""), ("sys.exit('why')", 1, "why\n")],
)
def test_stages_take_an_exit_as_python_does_when_it_is_no_number(
    tmp_path: Path, end: str, code: int, said: str
) -> None:
    """`sys.exit` with nothing is success; with a text, the text is told."""
    done = _call(tmp_path, DONE + end)

    assert (done.returncode, done.stderr) == (code, said)


def test_stages_share_modules_when_scripts_import_the_same(tmp_path: Path) -> None:
    """What one script imported is there for the next: torch is paid for once."""
    (tmp_path / "heavy.py").write_text("print('imported', flush=True)")

    done = _call(tmp_path, "import heavy" + DONE, "import heavy" + DONE)

    assert done.stdout.count("imported") == 1
    assert done.returncode == 0


def test_stages_do_nothing_when_their_runner_is_gone(tmp_path: Path) -> None:
    """A process whose parent is not its runner was orphaned before the kernel could kill it."""
    done = _call(tmp_path, DONE, runner=1)

    assert (done.returncode, done.stdout) == (1, "")
