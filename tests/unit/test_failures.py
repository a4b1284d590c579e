"""A script that failed is told by kind, class and its own words, and not paid for twice."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core_parts import CELL, MAKE, Desk, cell_job, job_of, stage
from quantgrid import failures, layout, links

WEIGHTS = stage("quantise", "weights")
JOB = job_of(WEIGHTS)
STATE = layout.state_folder(Path("v"), CELL, "quantise", WEIGHTS.fingerprint)


def failure_of(desk: Desk) -> dict[str, Any]:
    """The failure that a desk remembers."""
    found = failures.find(desk.root, CELL, "quantise", WEIGHTS.fingerprint)
    assert found is not None
    return dict(found)


_CLASSES = {
    "import nothing_of_this_name": ("import", "code", 70, "ModuleNotFoundError"),
    "raise MemoryError": ("host memory", "platform", 71, "MemoryError"),
    "x = bytearray(1 << 60)": ("host memory", "platform", 71, "MemoryError"),
    "import json; json.loads('{')": ("bad data", "data", 65, "JSONDecodeError"),
    "raise OSError(28, 'No space left on device', '/v/x')": (
        "disk full",
        "platform",
        71,
        "No space left on device (/v/x)",
    ),
    "class NonFiniteLossError(ArithmeticError): pass\nraise NonFiniteLossError('loss is nan')": (
        "non-finite",
        "code",
        70,
        "loss is nan",
    ),
    "class OutOfMemoryError(RuntimeError): __module__ = 'torch'\n"
    "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')": (
        "device memory",
        "device",
        69,
        "CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "raise TimeoutError('nobody answered')": ("time-out", "platform", 71, "nobody answered"),
    "import os; os.kill(os.getpid(), 11)": ("signal", "code", 70, "SIGSEGV"),
    "from quantgrid.errors import CorpusRefusal; raise CorpusRefusal('another corpus', seen=3)": (
        "refusal",
        "refusal",
        78,
        "refused: another corpus; seen 3.",
    ),
    "from quantgrid.errors import Alarm; raise Alarm('loss rose')": (
        "alarm",
        "science",
        76,
        "loss rose",
    ),
}


@pytest.mark.parametrize("script", _CLASSES)
def test_failure_is_written_down_when_a_script_fails(tmp_path: Path, script: str) -> None:
    """Kind, class and the script's own words are in the file and in the last line for a person."""
    kind, failure_class, exit_code, part = _CLASSES[script]
    desk = Desk.lay(tmp_path, quantise=script)

    code, said = desk.call(JOB)

    failure = failure_of(desk)
    assert code == exit_code
    assert part in said.splitlines()[-1]
    assert (failure["kind"], failure["class"]) == (kind, failure_class)
    assert part in failure["message"]
    assert failure["lines"] or kind == "signal"
    assert failure["host"] == os.uname().nodename
    assert failure["is_remembered"] is (failure_class in {"code", "data", "refusal"})
    links_ = json.loads(layout.links_file(tmp_path / STATE).read_bytes())
    assert [link["end"] for link in links_] == [links.FAILED]


def test_failure_that_may_pass_is_tried_again(tmp_path: Path) -> None:
    """A full disk today says nothing about tomorrow; a success forgets the failure."""
    desk = Desk.lay(tmp_path, quantise="raise MemoryError")
    assert desk.call(JOB)[0] == 71
    desk.change("quantise", MAKE)

    assert desk.call(JOB)[0] == 0
    assert list(failures.all_of(tmp_path)) == []
    counters = desk.archive.record(WEIGHTS.record)["counters"]
    assert counters == {"links": 1, "interruptions": 0, "failures": 1}


def test_failure_forgets_itself_when_the_fingerprint_changes(tmp_path: Path) -> None:
    """Another science, another spec: another cell, as far as failures go."""
    desk = Desk.lay(tmp_path, quantise="raise KeyError")
    assert desk.call(JOB)[0] == 70
    desk.change("quantise", MAKE)
    other = WEIGHTS._replace(
        fingerprint="f" * 64, record=layout.record_key("weights", CELL, "f" * 64)
    )

    assert desk.call(job_of(other))[0] == 0
    assert desk.call(JOB)[0] == 78


def test_failure_hides_secrets_when_a_script_tells_them(tmp_path: Path) -> None:
    """Neither the file nor the runner's sentence repeats what the environment keeps secret."""
    secret = "s3cr3t-" + "x" * 12
    script = "import os\nraise KeyError('no access with ' + os.environ['HF_TOKEN'])"
    desk = Desk.lay(tmp_path, quantise=script)

    _, said = desk.call(JOB, HF_TOKEN=secret)

    assert secret not in said.splitlines()[-1]
    assert "[HF_TOKEN]" in said.splitlines()[-1]
    text = (tmp_path / layout.failure_file(CELL, "quantise", WEIGHTS.fingerprint)).read_text()
    assert secret not in text
    assert "[HF_TOKEN]" in text


@pytest.mark.parametrize("damage", ["", "{", "7", '{"schema": "quantgrid/failure"}'])
def test_failure_is_not_remembered_when_its_file_is_damaged(tmp_path: Path, damage: str) -> None:
    """A torn memory must not stop a cell."""
    desk = Desk.lay(tmp_path)
    path = tmp_path / layout.failure_file(CELL, "quantise", WEIGHTS.fingerprint)
    path.parent.mkdir(parents=True)
    path.write_text(damage)

    assert desk.call(cell_job())[0] == 0
