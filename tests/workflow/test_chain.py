"""A grid under a cap: links follow by themselves to one result, and a failure is named first."""

import json
import os
import re
from pathlib import Path

import pytest

from quantgrid import layout
from working_copy import FEW as GRID
from working_copy import Outcome, WorkingCopy, lay, table

DAYS = 6
DAY_S = 6
"""Seconds that stand for a day of the platform."""


@pytest.fixture
def copy(tmp_path: Path, sealed: WorkingCopy) -> WorkingCopy:
    """A working copy with a grid of three cells, whose corpus is sealed."""
    return lay(tmp_path / "copy", light=True, sealed=sealed)


def cap(copy: WorkingCopy) -> None:
    """A cap of 24 hours and a grace of 10 minutes, by a clock that is so much faster."""
    copy.edit("config/platforms/local.yaml", "cap_s: null", "cap_s: 86400")
    copy.edit("config/platforms/local.yaml", "grace_s: 30 ", "grace_s: 600 ")
    with (copy / "config/platforms/local.yaml").open("a") as file:
        file.write(f"clock_factor: {86400 // DAY_S}\n")


def trunk_record(copy: WorkingCopy) -> dict[str, object]:
    """The record of the only trunk."""
    (path,) = (copy / "archive/trunks").glob("*/*/*/record.json")
    record: dict[str, object] = json.loads(path.read_bytes())
    return record


def test_trunk_of_six_days_ends_under_a_cap_of_one(
    copy: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven links, no manual step, one result (more links where the machine is busy)."""
    cap(copy)
    monkeypatch.setenv("LIGHT_WORK_S", str(DAYS * DAY_S))

    seen = copy.snakemake(table(GRID), grid=GRID)

    record = trunk_record(copy)
    links = record["links"]
    assert isinstance(links, list)
    assert 7 <= len(links) <= 20, seen.text
    assert [link["end"] for link in links[:-1]] == ["cap"] * (len(links) - 1)
    assert links[-1]["end"] == "done"
    tokens = [link["tokens"] for link in links]
    assert tokens == sorted(tokens)
    assert tokens[-1] == 100
    assert record["counters"] == {"links": len(links), "interruptions": 0, "failures": 0}
    assert len(list((copy / "results").glob("*/*/result.json"))) == 3
    assert not (copy / f"volume/{layout.STATE}").is_dir() or not any(
        (copy / f"volume/{layout.STATE}").iterdir()
    )


def test_script_that_never_saves_stops_after_two_links(
    copy: WorkingCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clear fault, told first; the next run refuses to pay again, and why and retry tell more."""
    cap(copy)
    monkeypatch.setenv("LIGHT_WORK_S", str(DAYS * DAY_S))
    monkeypatch.setenv("LIGHT_SAVES", "no")

    seen = copy.snakemake(grid=GRID, code=1)

    first = first_failure(seen)
    assert "ran two links and left no newer checkpoint" in first
    (owner,) = re.findall(r"milestone (\S+)", first)
    again = copy.snakemake(grid=GRID, code=1)
    assert ", failed 3" in again.plan
    assert "failed before and would fail again (code)" in first_failure(again)

    clone = lay(tmp_path / "clone", light=True)
    clone.edit("config/config.yaml", "archive: archive", f"archive: {copy / 'archive'}")
    assert ", failed 3" in clone.look(grid=GRID).plan
    cells = copy.quantgrid("cells", "--grid", GRID).text.split()
    story = json.loads(copy.quantgrid("why", cells[0], "--grid", GRID, "--json").text)
    (trunk,) = [stage for stage in story["stages"] if stage["stage"] == "trunk"]
    assert trunk["failure"]["kind"] == "no progress"
    assert trunk["counters"] == {"links": 2, "interruptions": 0, "failures": 0}
    assert f"quantgrid retry {owner}" in story["do"]
    told = copy.quantgrid("why", cells[0], "--grid", GRID).text
    assert told.startswith("failed       ")

    monkeypatch.delenv("LIGHT_WORK_S")
    assert "1 of 1 failure forgotten" in copy.quantgrid("retry", owner).text
    copy.snakemake(table(GRID), grid=GRID)
    assert "Nothing" in copy.quantgrid("why", cells[0], "--grid", GRID).text


FAILURES = {
    "host memory": ("raise MemoryError('8 GiB')", "MemoryError: 8 GiB"),
    "device memory": (
        "raise type('OutOfMemoryError', (RuntimeError,), {'__module__': 'torch'})"
        "('CUDA out of memory')",
        "torch.OutOfMemoryError: CUDA out of memory",
    ),
    "signal": ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
    "import": ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
    "bad data": ("import json; json.loads('{')", "JSONDecodeError"),
    "disk full": (
        "raise OSError(28, 'No space left on device', '/v/state')",
        "No space left on device (/v/state)",
    ),
    "non-finite": ("raise ArithmeticError('the loss of step 3 is nan')", "loss of step 3 is nan"),
    "time-out": ("raise TimeoutError('nobody answered')", "nobody answered"),
    "device": ("raise RuntimeError('CUDA error: an illegal address')", "CUDA error: an illegal"),
    "refusal": (
        "from quantgrid.errors import CorpusRefusal; raise CorpusRefusal('another corpus')",
        "refused: another corpus.",
    ),
    "code": ("{}['lost']", "KeyError: 'lost'"),
}


def test_terminal_names_the_real_error_first(
    copy: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person reads first of each failed job is the script's own error; one trunk a kind."""
    kinds = dict(enumerate(FAILURES))
    copy.edit(f"config/grids/{GRID}.yaml", "seeds: [0]", f"seeds: {[*kinds]}")
    statements = {str(seed): FAILURES[kind][0] for seed, kind in kinds.items()}
    choose = f"exec({statements!r}[os.environ['QG_SEED']])"
    monkeypatch.setenv("LIGHT_FAIL", f"trunk:import os; {choose}")

    seen = copy.snakemake(grid=GRID, code=1)

    assert any(part in first_failure(seen) for _, part in FAILURES.values())
    found = [json.loads(path.read_bytes()) for path in (copy / "failures").rglob("*.json")]
    assert {each["cell"].partition("/")[0]: each["kind"] for each in found} == {
        f"n0-s{seed}": kind for seed, kind in kinds.items()
    }
    for seed, kind in kinds.items():
        told = next(
            line for line in seen.text.splitlines() if f" n0-s{seed}/" in line and "fail" in line
        )
        assert FAILURES[kind][1] in told, kind


def first_failure(seen: Outcome) -> str:
    """The first line that speaks of a failure at all."""
    words = re.compile(r"fail|error|exception|refused|traceback", re.IGNORECASE)
    lines = [line for line in seen.text.splitlines() if not line.startswith("plan ")]
    return next(line for line in lines if words.search(line))


def test_environment_of_these_tests_is_clean() -> None:
    """No variable of the light scripts leaks in from outside."""
    assert not [name for name in os.environ if name.startswith("LIGHT_")]
