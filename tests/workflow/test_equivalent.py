"""A refactor keeps a year of results; a change of numbers does not pass for one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import working_copy
from quantgrid import layout
from working_copy import WorkingCopy, grid_file, lay

BASE = "n0-t20k-s0"
RTN4 = f"{BASE}/rtn-w4row-noclip"
RTN = layout.method_module(Path(), "rtn").as_posix()
GRID = grid_file(working_copy.NONE, working_copy.RTN, sequences=4)
TARGETS = tuple(f"results/{cell}/result.json" for cell in (f"{BASE}/none", RTN4))
"""Without table and page, which are not about this."""

OFFSET = "src/quantlm/offset.py"
EVALUATE = """\
import light
from quantlm import offset

light.OFFSET = offset.OFFSET
light.evaluate()
"""


@pytest.fixture
def repository(tmp_path: Path) -> WorkingCopy:
    """A working copy with light science and a grid of two cells, in a repository of its own."""
    copy = lay(tmp_path / "copy", light=True)
    (copy / "config/grids/smoke.yaml").write_text(GRID)
    copy.call("git", "init", "--quiet")
    commit(copy)
    return copy


def commit(copy: WorkingCopy) -> None:
    """Commit configuration and science, and nothing that a grid makes."""
    copy.call("git", "add", "config", "scripts", "src")
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    copy.call("git", *who, "commit", "--quiet", "--message", "science: what it was")


def entries(copy: WorkingCopy) -> Any:
    """What was proved."""
    return yaml.safe_load((copy / layout.EQUIVALENCES).read_text())


def weights(copy: WorkingCopy) -> dict[str, Any]:
    """What the result of the rounded cell tells of its weights."""
    record = json.loads((copy / f"results/{RTN4}/result.json").read_bytes())
    return record["weights"]  # type: ignore[no-any-return]


def forget(copy: WorkingCopy) -> None:
    """Delete the rounded cell everywhere."""
    for folder in ("archive/cells", "archive/weights", "results"):
        shutil.rmtree(copy / folder / RTN4)
    for receipt in (copy / f"receipts/cell/{BASE}").glob("rtn-*"):
        receipt.unlink()


def test_cells_stay_current_when_a_refactor_was_proved(repository: WorkingCopy) -> None:
    """After a renamed variable nothing is stale, and a cell made anew tells its real digest."""
    copy = repository
    copy.snakemake(*TARGETS)
    before = weights(copy)
    copy.edit(RTN, "levels", "steps")
    assert "make 1, stale 1" in copy.look(*TARGETS).plan

    said = copy.quantgrid("equivalent", "HEAD", "--reason", "clearer names")

    assert "equal, bit for bit: 2 cells" in said.text
    [proved] = entries(copy)
    assert (proved["stage"], proved["method"], proved["old"]) == (
        *("quantise", "rtn"),
        before["science"],
    )
    assert proved["proof"]["cells"] == 2
    seen = copy.look(*TARGETS)
    assert seen.jobs == {}
    assert "2 current, restore 0, make 0, stale 0" in seen.plan
    forget(copy)
    copy.snakemake(*TARGETS)
    after = weights(copy)
    assert after["fingerprint"] == before["fingerprint"]
    assert after["science"] == proved["new"] != before["science"]


def test_nothing_is_written_when_a_number_differs(repository: WorkingCopy) -> None:
    """A change of a number, in a module of the science, is refused with its cell and values."""
    copy = repository
    copy.edit("scripts/light.py", "WORK = ", "OFFSET = 0.0\nWORK = ")
    copy.edit("scripts/light.py", "round(1 +", "round(1 + OFFSET +")
    (copy / "scripts/evaluate.py").write_text(EVALUATE)
    (copy / OFFSET).write_text("OFFSET = 0.0\n")
    commit(copy)
    (copy / OFFSET).write_text("OFFSET = 1.0\n")
    kept = (copy / layout.EQUIVALENCES).read_bytes()

    said = copy.quantgrid("equivalent", "HEAD", ".", "--reason", "a cleaner offset", code=78)

    assert "evaluation.results.loss differs; expected 1." in said.text
    assert f"seen 2.{said.text.partition('; expected 1.')[2][:3]}" in said.text
    assert f"({BASE}/none)" in said.text
    assert (copy / layout.EQUIVALENCES).read_bytes() == kept
    assert not (copy / "archive").exists()


def test_nothing_is_computed_when_no_digest_differs(repository: WorkingCopy) -> None:
    """A comment needs no proof."""
    with (repository / RTN).open("a") as file:
        file.write("\n# a comment\n")

    said = repository.quantgrid("equivalent", "HEAD", "--reason", "a comment")

    assert "the same science already" in said.text
    assert entries(repository) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere", ".", "--reason", "why"), "git rev-parse knows no nowhere"),
        (("--reason", "why", "--", "--since=2020"), "git rev-parse knows no --since=2020"),
        (("HEAD", ".", "--reason", " "), "the reason is empty"),
    ],
)
def test_proof_is_refused_when_it_cannot_be_meant(
    repository: WorkingCopy, arguments: tuple[str, ...], problem: str
) -> None:
    """An unknown revision, an option in its place and an empty reason end before any work."""
    said = repository.quantgrid("equivalent", *arguments, code=78)

    assert problem in said.text


def test_grid_is_refused_when_partial_files_would_be_kept(repository: WorkingCopy) -> None:
    """Snakemake takes what `--keep-incomplete` leaves for finished, so no job starts with it."""
    said = repository.snakemake("--keep-incomplete", code=78)

    assert "refused: --keep-incomplete" in said.text
    assert not (repository / "volume").exists()
