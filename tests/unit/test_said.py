"""What a script says is in the log: without secrets, beginning and end, and no more."""

import json
import os
import subprocess
from pathlib import Path

from core_parts import BOUND_S, CELL, MAKE, Desk, job_of, stage
from quantgrid import layout, said
from quantgrid.job import Job

WEIGHTS = stage("quantise", "weights")
JOB = job_of(WEIGHTS)
TOKEN = "abcdef-123456"  # noqa: S105 - made up
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----"


def logged(desk: Desk, job: Job = JOB, **environment: str) -> tuple[int, str]:
    """Run a job as a rule does, into a log: its exit code and the log."""
    log = desk.root / "job.log"
    command = ["bash", "-c", f'exec "$@" > {log} 2>&1', "rule", *desk.command(job)]
    done = subprocess.run(
        command, cwd=desk.root, env={**os.environ, **environment}, timeout=BOUND_S, check=False
    )
    return done.returncode, log.read_bytes().decode(errors="surrogateescape")


def test_no_file_holds_a_secret_when_a_script_told_it_everywhere(tmp_path: Path) -> None:
    """Both streams, a whole key line by line, an error, a note for the record: all are masked."""
    tells = (
        "import json, os, sys\n"
        "from quantgrid import atomic\n"
        "token = os.environ['HF_TOKEN']\n"
        "print('one', token, flush=True)\n"
        "os.write(2, b'two \\xff ' + token[:6].encode())\n"
        "os.write(2, token[6:].encode() + b'\\n' + os.environ['DEPLOY_KEY'].encode() + b'\\n')\n"
        "note = {'tokens': 1, 'checkpoint': 'at-1', 'notes': ['with ' + token]}\n"
        "atomic.publish_json(__import__('pathlib').Path(os.environ['QG_LINK']), note)\n"
        "raise RuntimeError(f'no entry with {token}')\n"
    )
    desk = Desk.lay(tmp_path, quantise=tells)

    code, log = logged(desk, HF_TOKEN=TOKEN, DEPLOY_KEY=KEY)

    assert code == 70
    assert "one [HF_TOKEN]\n" in log
    assert "two \udcff [HF_TOKEN]\n[DEPLOY_KEY]" in log
    assert "no entry with [HF_TOKEN]" in log.splitlines()[-1]
    end = json.loads(desk.progress.with_suffix(".end").read_bytes())
    assert "no entry with [HF_TOKEN]" in end["sentence"]
    state = layout.state_folder(tmp_path / "v", CELL, "quantise", WEIGHTS.fingerprint)
    assert json.loads(layout.links_file(state).read_bytes())[0]["notes"] == ["with [HF_TOKEN]"]
    told = layout.link_file(state)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != told]
    assert [path for path in written if TOKEN in path.read_text(errors="replace")] == []


def test_refusal_of_a_result_holds_no_secret_when_the_result_did(tmp_path: Path) -> None:
    """Our own sentence shows what was handed back, and neither log nor file tells the token."""
    hands = "import os\nopen(os.environ['QG_RESULT'], 'w').write(os.environ['HF_TOKEN'] * 2)\n"
    desk = Desk.lay(tmp_path, quantise=hands)

    code, log = logged(desk, HF_TOKEN=TOKEN)

    assert code == 65, log
    end = json.loads(desk.progress.with_suffix(".end").read_bytes())
    for told in (log, end["sentence"]):
        assert "[HF_TOKEN][HF_TOKEN]" in told
        assert TOKEN not in told


def test_log_keeps_beginning_and_end_when_a_script_says_too_much(tmp_path: Path) -> None:
    """Sixty megabytes become a few; the error at the end is read although most is left out."""
    floods = (
        "import sys\nprint('the beginning')\n"
        "for number in range(60):\n    print(('x' * 99 + '\\n') * 10_000, end='')\n"
        "sys.stdout.flush()\nsys.stdout.write('HF ' + 'abcdef-123456 ')\n"
        "raise MemoryError('the end')\n"
    )
    desk = Desk.lay(tmp_path, quantise=floods)

    code, log = logged(desk, HF_TOKEN=TOKEN)

    assert code == 71, log[-2000:]
    assert log.startswith("the beginning\n")
    assert "MemoryError: the end" in log
    assert "HF [HF_TOKEN] " in log
    assert " bytes are left out here]\n" in log
    assert said.HEAD_BYTES < len(log) < said.HEAD_BYTES + 3 * said.TAIL_BYTES
    assert log.splitlines()[-1].startswith(f"failed: {CELL}: MemoryError: the end")


def test_output_stays_apart_when_it_goes_elsewhere_than_errors(tmp_path: Path) -> None:
    """Whoever asks for both apart gets both apart."""
    desk = Desk.lay(
        tmp_path, quantise="import os\nos.write(1, b'out')\nos.write(2, b'err')\n" + MAKE
    )
    done = subprocess.run(
        desk.command(JOB), cwd=tmp_path, capture_output=True, timeout=BOUND_S, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"out", b"err")


def test_log_is_whole_when_a_job_says_nothing_unusual(tmp_path: Path) -> None:
    """Each line once, in order over both streams, the last one without an end."""
    says = (
        "import os\n"
        "for number in range(300):\n    os.write(1 + number % 2, b'line %d\\n' % number)\n"
        "os.write(1, b'and a rest')\n"
    )
    desk = Desk.lay(tmp_path, quantise=says + MAKE)

    code, log = logged(desk)

    assert code == 0
    assert log == "".join(f"line {number}\n" for number in range(300)) + "and a rest"
