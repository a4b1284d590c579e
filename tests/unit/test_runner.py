"""The runner starts scripts under the contract and deposits what they made, whatever happens."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core_parts import (
    CELL,
    CLOCK,
    MAKE,
    MEASURE,
    Desk,
    body,
    cell_job,
    job_of,
    stage,
    tree,
)
from quantgrid import CONTRACT_VERSION, contract, layout
from quantgrid.errors import ArchiveRefusal, DataFault
from quantgrid.fingerprint import digest_bytes


def test_runner_deposits_every_stage_when_scripts_finish(tmp_path: Path) -> None:
    """Weights and cell are archived, and the cell's record tells of its weights."""
    desk, job = Desk.lay(tmp_path), cell_job()

    deposit = desk.run(job)

    record = desk.archive.record(job.last.record)
    assert deposit.record == job.last.record
    assert deposit.digest == record["digest"]
    assert deposit.archive == desk.archive.identity()
    assert record["weights"]["results"] == {"made": CELL}
    assert record["corpus"]["manifest"] == "m"
    assert record["links"][0]["exit_code"] == 0
    assert desk.debris() == []


def test_runner_starts_nothing_when_all_is_archived(tmp_path: Path) -> None:
    """The same job again gives the same deposit without running a script."""
    desk, job = Desk.lay(tmp_path), cell_job()
    first = desk.run(job)
    desk.change("quantise", "raise SystemExit(1)")
    desk.change("evaluate", "raise SystemExit(1)")

    assert desk.run(job) == first


def test_runner_tells_the_contract_when_it_starts_a_script(tmp_path: Path) -> None:
    """A script finds every variable of the table, and the spec as it was asked for."""
    look = """
import json, os
from pathlib import Path
seen = {name: value for name, value in os.environ.items() if name.startswith("QG_")}
seen["spec"] = json.loads(Path(seen["QG_SPEC"]).read_bytes())
seen["cwd"] = os.getcwd()
seen["threads"] = os.environ["OMP_NUM_THREADS"]
from quantgrid.cell import Cell
Cell.from_environment().finish(seen)
"""
    desk = Desk.lay(tmp_path, quantise=look)
    asked = stage("quantise", "weights")._replace(spec={"form": {"bits": 3}, "a": [1.5]})

    desk.run(job_of(asked))

    seen = desk.archive.record(asked.record)["results"]
    assert {variable.name for variable in contract.TABLE} <= set(seen)
    assert seen["spec"] == asked.spec
    assert seen[contract.CONTRACT] == str(CONTRACT_VERSION)
    assert (seen[contract.CELL], seen[contract.STAGE]) == (CELL, "quantise")
    assert (seen[contract.SEED], seen[contract.FINGERPRINT]) == ("7", asked.fingerprint)
    assert seen["cwd"] == seen[contract.WORK]
    assert seen["threads"] == seen[contract.THREADS] == "1"


@pytest.mark.parametrize(
    ("options", "told"), [((), ""), (("--interruption-s", "7200", "--clock-factor", "2"), "3600")]
)
def test_contract_tells_how_often_a_platform_interrupts(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    """The mean time of the platform's file, by this machine's clock; empty where nobody knows."""
    look = """
import os
from quantgrid.cell import Cell
Cell.from_environment().finish({"told": os.environ["QG_INTERRUPTION_S"]})
"""
    desk, asked = Desk.lay(tmp_path, quantise=look), stage("quantise", "weights")

    code, said = desk.call(job_of(asked), options=options)

    assert code == 0, said
    assert desk.archive.record(asked.record)["results"] == {"told": told}


def test_runner_gives_verified_parents_when_a_stage_needs_them(tmp_path: Path) -> None:
    """A parent made in this job and one from the archive look the same to a script."""
    desk, weights = Desk.lay(tmp_path), stage("quantise", "weights")
    measured = stage("evaluate", "cells", weights=weights, base=weights)

    desk.run(job_of(weights, measured))
    together = desk.archive.record(measured.record)["results"]["seen"]
    (tmp_path / "archive" / measured.record).unlink()
    desk.run(job_of(measured))
    apart = desk.archive.record(measured.record)["results"]["seen"]

    expected = {"weights.bin": weights.fingerprint}
    assert together == apart == {"weights": expected, "base": expected}


def test_runner_goes_on_from_the_newest_milestone_when_there_is_one(tmp_path: Path) -> None:
    """The first archived of the earlier milestones is given; none is needed."""
    look = MEASURE.replace('"loss": 1.5, ', "")
    desk = Desk.lay(tmp_path, trunk=look, quantise=MAKE)
    owners = [f"n0-s0/{at}" for at in (300, 200, 100)]
    newest, newer, oldest = (stage("trunk", "trunks", owner) for owner in owners)
    resume = tuple(each.record for each in (newer, oldest))

    desk.run(job_of(newest._replace(resume=resume))._replace(cell=owners[0]))
    assert desk.archive.record(newest.record)["results"]["seen"] == {}
    (tmp_path / "archive" / newest.record).unlink()
    for each, content in ((oldest, b"oldest"), (newer, b"newer")):
        source = tmp_path / "state"
        source.write_bytes(content)
        record = {
            **body("trunks", each.record.split("/", 1)[1].rsplit("/", 2)[0]),
            "fingerprint": each.fingerprint,
            "blobs": {"state": {"sha256": digest_bytes(content), "size_bytes": len(content)}},
        }
        desk.archive.deposit(each.record, record, {"state": source}, clock=CLOCK)
        (tmp_path / "archive" / newest.record).unlink(missing_ok=True)
        desk.run(job_of(newest._replace(resume=resume))._replace(cell=owners[0]))
        seen = desk.archive.record(newest.record)["results"]["seen"]
        assert seen == {"milestone": {"state": content.decode()}}


def test_runner_keeps_scripts_apart_when_they_write(tmp_path: Path) -> None:
    """What a script writes relative to itself touches neither neighbour nor working copy."""
    scribble = 'from pathlib import Path\nPath("scribble").write_text("x")\n'
    desk = Desk.lay(tmp_path, quantise=scribble + MAKE)
    desk.change("evaluate", 'import os\nassert not os.path.exists("scribble")\n' + MEASURE)

    desk.run(cell_job())

    assert [name for name in tree(tmp_path) if "scribble" in name] == []


def test_runner_finds_modules_when_scripts_share_one(tmp_path: Path) -> None:
    """A script imports what lies beside it, and nothing of the working copy hides a module."""
    desk = Desk.lay(tmp_path, shared="NAME = 'shared'", quantise="import shared\n" + MAKE)
    for name in ("json.py", "quantgrid.py", "runpy.py"):
        (tmp_path / name).write_text("raise RuntimeError('hidden')")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        desk.run(cell_job())
    finally:
        os.chdir(before)

    assert len(desk.archive.index()) == 2


# -- parents that are not there -------------------------------------------------------------------


def test_runner_refuses_when_a_parent_is_missing(tmp_path: Path) -> None:
    """Nothing starts without the weights that it measures; the missing key is named."""
    desk, weights = Desk.lay(tmp_path, evaluate="raise SystemExit(1)"), stage("quantise", "weights")

    with pytest.raises(ArchiveRefusal, match=weights.record):
        desk.run(job_of(stage("evaluate", "cells", weights=weights, base=weights)))
    assert desk.debris() == []


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"x"), Path.unlink])
def test_runner_refuses_when_a_parent_is_damaged(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """No script ever sees bytes that are not those of the record."""
    desk, weights = Desk.lay(tmp_path), stage("quantise", "weights")
    desk.run(job_of(weights))
    desk.change("evaluate", "raise SystemExit(1)")
    damage(tmp_path / "archive" / layout.blob_key(digest_bytes(weights.fingerprint.encode())))

    with pytest.raises(DataFault, match="is damaged"):
        desk.run(job_of(stage("evaluate", "cells", weights=weights, base=weights)))


def test_runner_refuses_when_its_own_record_is_another_ones(tmp_path: Path) -> None:
    """A misplaced record does not count as this cell's result."""
    desk, job = Desk.lay(tmp_path), cell_job()
    desk.run(job)
    other = stage("quantise", "weights", "n0-t1k-s9/rtn")
    path = tmp_path / "archive" / other.record
    path.parent.mkdir(parents=True)
    path.write_bytes((tmp_path / "archive" / job.stages[0].record).read_bytes())

    with pytest.raises(DataFault, match="another key"):
        desk.run(job_of(other)._replace(cell="n0-t1k-s9/rtn"))


# -- what a script hands back ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "break_it",
    [
        'cell.result.write_text("")',
        'cell.result.write_text("{")',
        'cell.result.write_text("[]")',
        'cell.result.write_text("{}")',
        'cell.result.write_bytes(b"\\xff")',
        'cell.result.write_text(cell.result.read_text().replace(\'"made"\', \'"made": NaN, "x"\'))',
        'cell.result.write_text(cell.result.read_text().replace(\'"wall_s": \', \'"wall_s": "x\'))',
        'cell.result.write_text(cell.result.read_text().replace("receipt", "recept"))',
        'cell.result.write_text(cell.result.read_text().replace("null", "7"))',
    ],
)
def test_runner_names_the_result_when_it_is_torn(tmp_path: Path, break_it: str) -> None:
    """A result that is not what the contract says is a data fault, and nothing is deposited."""
    desk = Desk.lay(tmp_path, quantise=MAKE + break_it)

    with pytest.raises(DataFault, match="result of stage quantise cannot be read"):
        desk.run(cell_job())
    assert desk.archive.index() == frozenset()
    assert desk.debris() == []


def test_runner_refuses_when_a_script_finished_another_cell(tmp_path: Path) -> None:
    """A result with another fingerprint never gets this cell's name; both are told."""
    other = MAKE.replace("cell.finish(", 'cell = cell._replace(fingerprint="f" * 64)\ncell.finish(')
    desk, job = Desk.lay(tmp_path, quantise=other), cell_job()

    with pytest.raises(DataFault, match="finished another cell") as caught:
        desk.run(job)
    assert job.stages[0].fingerprint in str(caught.value)
    assert "f" * 64 in str(caught.value)
    assert desk.archive.index() == frozenset()


@pytest.mark.parametrize(
    "change",
    [
        '(cell.out / "weights.bin").write_text("changed")',
        '(cell.out / "weights.bin").unlink()',
        '(cell.out / "more").write_text("")',
        '(cell.out / "folder").mkdir()',
    ],
)
def test_runner_refuses_when_files_changed_after_they_were_named(
    tmp_path: Path, change: str
) -> None:
    """Bytes are deposited as the script named them or not at all."""
    desk = Desk.lay(tmp_path, quantise=MAKE + change)

    with pytest.raises(DataFault, match="are not those that its script named"):
        desk.run(cell_job())
    assert desk.archive.index() == frozenset()


def test_runner_refuses_when_a_later_script_changed_the_files(tmp_path: Path) -> None:
    """The evaluation cannot change the weights it measured: neither of them is deposited."""
    desk = Desk.lay(tmp_path)
    desk.change("evaluate", MEASURE + 'cell.parents["base"]["weights.bin"].write_text("better")')

    with pytest.raises(DataFault, match="files of stage quantise"):
        desk.run(cell_job())
    assert desk.archive.index() == frozenset()


def test_runner_leaves_debris_out_when_a_script_left_some(tmp_path: Path) -> None:
    """A file whose publication was not finished is no file of the result."""
    left = '(cell.out / "weights.bin.qgpart-h@1@00").write_text("half")\n'
    desk, job = Desk.lay(tmp_path), cell_job()
    desk.change("quantise", MAKE.replace("cell.finish(", left + "cell.finish("))

    desk.run(job)

    assert list(desk.archive.record(job.stages[0].record)["blobs"]) == ["weights.bin"]
