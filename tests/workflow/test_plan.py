"""What is planned in every situation a working copy gets into (Shows 2 to 4 of the main job)."""

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from working_copy import CELLS, FEW, WorkingCopy, table

BASE = "n0-t20k-s0"
RTN4 = f"{BASE}/rtn-w4row-noclip"
FRESH = {"milestone": 2, "base": 2, "quantise": 10, "qat": 2, "fold": 14, "table": 1, "report": 1}


def archived(copy: WorkingCopy, kind: str, owner: str = "") -> list[Path]:
    """The records of a kind in the archive of a working copy."""
    return sorted((copy / "archive" / kind / owner).rglob("record.json"))


def forget(copy: WorkingCopy, owner: str) -> None:
    """Delete a cell from archive, receipts and results."""
    for kind in ("cells", "weights"):
        shutil.rmtree(copy / f"archive/{kind}/{owner}")
    shutil.rmtree(copy / f"results/{owner}")
    base, variant = owner.split("/")
    for receipt in (copy / f"receipts/cell/{base}").glob(f"{variant}.*"):
        receipt.unlink()


def test_plan_makes_everything_when_nothing_is_there(fresh: WorkingCopy) -> None:
    """A fresh copy plans each milestone, base, form and fold once, after the seal."""
    seen = fresh.look()

    assert seen.jobs == FRESH | {"prepare": 1, "seal": 1}
    assert f"plan smoke: {CELLS} cells: 0 current, restore 0, make {CELLS}, stale 0" == seen.plan


def test_plan_of_the_demo_has_105_cells_when_nothing_is_there(fresh: WorkingCopy) -> None:
    """The counts of the proven prototype."""
    seen = fresh.look(grid="demo")

    expected = {"milestone": 15, "base": 15, "quantise": 75, "qat": 15, "fold": 105}
    assert expected == {rule: seen.jobs[rule] for rule in expected}


def test_dry_run_leaves_no_archive_when_there_was_none(fresh: WorkingCopy) -> None:
    """Looking creates neither archive nor volume."""
    fresh.look()

    assert not (fresh / "archive").exists()
    assert not (fresh / "volume").exists()


def test_second_run_does_nothing_when_the_grid_is_complete(made: WorkingCopy) -> None:
    """Running again plans no job."""
    seen = made.look()

    assert seen.jobs == {}
    assert f"{CELLS} current, restore 0, make 0" in seen.plan


def test_current_results_are_no_jobs_when_the_plan_has_seen_them(made: WorkingCopy) -> None:
    """Snakemake makes no job of a result that the plan has read, nor of what it was made from."""
    seen = made.look("--debug-dag")

    assert "candidate job table" in seen.text
    assert "candidate job fold" not in seen.text


def test_current_results_are_jobs_when_forced(made: WorkingCopy) -> None:
    """Who forces a rule means every job of it."""
    seen = made.look("--forcerun", "fold")

    assert seen.jobs == {"fold": CELLS}


def test_results_are_restored_byte_for_byte_when_deleted(made: WorkingCopy) -> None:
    """Without results and metadata only folds run, and table and ledger come out the same."""
    kept = ["results/smoke.csv", "results/smoke-laws.csv", "ledger.csv"]
    before = {name: (made / name).read_bytes() for name in kept}
    shutil.rmtree(made / "results")
    shutil.rmtree(made / ".snakemake")
    (made / "ledger.csv").unlink()

    seen = made.look()

    assert seen.jobs == {"fold": CELLS, "table": 1, "report": 1}
    assert f"0 current, restore {CELLS}, make 0" in seen.plan
    made.snakemake(table())
    assert before == {name: (made / name).read_bytes() for name in kept}


def test_three_deleted_cells_are_made_and_nothing_else(made: WorkingCopy) -> None:
    """Cells that are gone everywhere are made again, from parents that the archive holds."""
    for owner in (RTN4, f"{BASE}/gptq-w2g32-asym", "n0-t40k-s0/qat-ternary-row-absmean"):
        forget(made, owner)

    seen = made.look()

    assert seen.jobs == {"quantise": 2, "qat": 1, "fold": 3, "table": 1, "report": 1}
    assert f"{CELLS - 3} current, restore 0, make 3" in seen.plan


def test_base_is_made_with_what_needs_it_when_both_are_deleted(made: WorkingCopy) -> None:
    """A form whose base is gone from the archive waits for the base."""
    forget(made, RTN4)
    forget(made, f"{BASE}/none")

    assert made.look().jobs == {"base": 1, "quantise": 1, "fold": 2, "table": 1, "report": 1}


def test_corpus_is_sealed_first_when_the_archive_holds_the_parents(made: WorkingCopy) -> None:
    """A form of an archived base waits for the sentinel itself, where nothing else waits for it."""
    forget(made, RTN4)
    shutil.rmtree(made / "receipts/corpus")

    seen = made.look()

    assert seen.jobs == {"prepare": 1, "seal": 1, "quantise": 1, "fold": 1, "table": 1, "report": 1}


@pytest.mark.parametrize("kept", [False, True], ids=["without results", "with results"])
def test_clone_trains_nothing_when_the_archive_is_full(made: WorkingCopy, *, kept: bool) -> None:
    """A clone with newer times beside a full archive folds; with results too, it does nothing."""
    for name in ("receipts", ".snakemake", "plan", "logs", "work"):
        shutil.rmtree(made / name, ignore_errors=True)
    if not kept:
        shutil.rmtree(made / "results")
    made.make_newer()

    expected = {} if kept else {"fold": CELLS, "table": 1, "report": 1}
    assert expected == made.look().jobs


def test_table_is_made_again_when_it_shows_other_results(made: WorkingCopy) -> None:
    """A table of other fingerprints is made again, however new it is; so is its page."""
    rows = made / table()
    shown = made.root / "plan/smoke.json"
    fingerprint = json.loads(shown.read_bytes())["cells"][RTN4]
    rows.write_text(rows.read_text().replace(fingerprint, "0" * 64))
    os.utime(rows, (time.time() + 5,) * 2)

    assert made.look().jobs == {"table": 1, "report": 1}


def test_page_is_made_again_when_it_shows_another_table(made: WorkingCopy) -> None:
    """A newer table that is not the one of the page makes the page again, and nothing else."""
    rows = made / table()
    rows.write_text(rows.read_text() + "\n")

    assert made.look().jobs == {"report": 1}


def test_plan_is_refused_when_the_archive_was_emptied(made: WorkingCopy) -> None:
    """Receipts of records that are gone mean a loss: nothing is planned, exit code 78."""
    shutil.rmtree(made / "archive")

    seen = made.look(code=78)

    assert "refused: this is not the archive" in seen.text
    assert "an empty place" in seen.text
    assert "Job stats" not in seen.text


def test_plan_is_refused_when_the_archive_lost_records(made: WorkingCopy) -> None:
    """A lost record is named with what was expected and seen; so is the way on."""
    for record in archived(made, "cells", f"{BASE}/none"):
        record.unlink()

    seen = made.look(code=78)

    assert "the archive lost 1 record" in seen.text
    assert f"cells/{BASE}/none/" in seen.text
    assert "quantgrid archive forget" in seen.text


def test_plan_is_refused_when_the_archive_is_another_one(made: WorkingCopy) -> None:
    """A twin archive is refused by identity, even when it holds the same records."""
    identity = made / "archive/archive.json"
    known = json.loads(identity.read_text())
    identity.write_text(json.dumps({**known, "id": "0" * 32}))

    seen = made.look(code=78)

    assert known["id"] in seen.text
    assert "0" * 32 in seen.text


def test_plan_warns_when_results_are_not_in_the_archive(made: WorkingCopy) -> None:
    """Results that exist here alone are counted as such: losing them would lose the work."""
    shutil.rmtree(made / "archive")
    made.quantgrid("archive", "forget", "--yes")

    assert f"{CELLS} current ({CELLS} not in the archive)" in made.look().plan
    assert "there is no archive to verify" in made.quantgrid("archive", "verify", code=78).text


def test_command_is_refused_when_it_is_called_elsewhere(made: WorkingCopy, tmp_path: Path) -> None:
    """Outside a working copy there is one sentence and no traceback."""
    (tmp_path / "elsewhere").mkdir()

    seen = WorkingCopy(tmp_path / "elsewhere").quantgrid("cells", code=78)

    assert "this is no working copy" in seen.text
    assert "Traceback" not in seen.text


def test_plan_is_refused_when_the_configuration_is_no_yaml(fresh: WorkingCopy) -> None:
    """File and line are told, before Snakemake reads the file and tells neither."""
    fresh.edit("config/config.yaml", 'select: ""', 'select: "')

    seen = fresh.look(code=78)

    assert re.search(r"refused: this is not YAML: .* \(config/config\.yaml:\d+\)", seen.text)
    assert "WorkflowError" not in seen.text


def test_second_working_copy_is_refused_when_nobody_named_it(
    fresh: WorkingCopy, tmp_path: Path
) -> None:
    """`--snakefile` alone begins no archive elsewhere; `--directory` says that it shall."""
    (tmp_path / "elsewhere").mkdir()
    elsewhere = WorkingCopy(tmp_path / "elsewhere")
    place = ("--snakefile", str(fresh / "Snakefile"), "--profile", str(fresh / "profiles/local"))
    look = (sys.executable, "-m", "snakemake", "-n", *place, "--config", "grid=smoke")

    seen = elsewhere.call(*look, code=78)

    assert "called outside of the working copy" in seen.text
    assert str(fresh.root) in seen.text
    assert "make 14" in elsewhere.call(*look, "--directory", ".").plan


def test_plan_goes_on_when_the_lost_receipts_are_forgotten(made: WorkingCopy) -> None:
    """`quantgrid archive forget` is the deliberate way on after a loss."""
    shutil.rmtree(made / "archive")
    shutil.rmtree(made / "results")

    made.quantgrid("archive", "forget", "--archive", "archive", "--yes")

    assert {r: n for r, n in made.look().jobs.items() if r not in {"prepare", "seal"}} == FRESH


def test_one_cell_and_what_it_needs_is_planned_when_named(fresh: WorkingCopy) -> None:
    """A result file as target plans its own chain and nothing beside it."""
    seen = fresh.look(f"results/{RTN4}/result.json")

    expected = {"prepare": 1, "seal": 1, "milestone": 1, "base": 1, "quantise": 1, "fold": 1}
    assert expected == seen.jobs


def test_two_cells_share_their_parents_when_named(fresh: WorkingCopy) -> None:
    """Parents of several targets are made once."""
    seen = fresh.look(f"results/{RTN4}/result.json", f"results/{BASE}/none/result.json")

    assert tuple(seen.jobs[r] for r in ("milestone", "base", "quantise", "fold")) == (1, 1, 1, 2)


def test_selection_plans_its_cells_and_no_table(fresh: WorkingCopy) -> None:
    """A part of a grid is folded; a table of a part would look like the whole."""
    seen = fresh.look("--config", "select=bits<=2 and method=gptq", grid="")
    demo = {"quantise": 15, "fold": 15, "base": 15, "milestone": 15}

    assert demo == {rule: seen.jobs[rule] for rule in demo}
    assert "table" not in seen.jobs


def test_selection_without_a_cell_is_refused(fresh: WorkingCopy) -> None:
    """An expression that matches nothing is a mistake, not an empty success."""
    seen = fresh.look("--config", "select=bits=7", grid="", code=78)

    assert "matches none of 105 cells" in seen.text


def test_unknown_cell_is_refused_when_named(fresh: WorkingCopy) -> None:
    """A cell that the grid lacks is refused with the way to find the right name."""
    seen = fresh.look("results/n0-t999k-s0/none/result.json", code=78)

    assert "grid smoke has no cell n0-t999k-s0/none, did you mean 'n0-t" in seen.text


def test_receipt_of_another_science_is_refused_when_named(fresh: WorkingCopy) -> None:
    """A plan says so, and not a job in the middle of a night."""
    seen = fresh.look(f"receipts/cell/{BASE}/none.{'0' * 64}.json", code=78)

    assert f"{BASE}/none is asked for under another fingerprint" in seen.text


@pytest.mark.parametrize(
    "picture", ["--dag", pytest.param("--rulegraph", marks=pytest.mark.nightly)]
)
def test_picture_is_drawn_when_asked(fresh: WorkingCopy, picture: str) -> None:
    """Snakemake's pictures work for one cell."""
    seen = fresh.snakemake(f"results/{RTN4}/result.json", picture)

    assert "digraph snakemake_dag" in seen.text
    assert "quantise" in seen.text


def test_science_is_current_when_only_its_looks_change(made: WorkingCopy) -> None:
    """Comments, docstrings, layout and times of files make no cell stale."""
    for script in (made / "scripts").glob("*.py"):
        text = script.read_text().replace('"""', '"""Reworded. ', 1)
        script.write_text(f"# a comment\n\n{text}\n\n\n# another\n")
    for module in (made / "src/quantlm").rglob("*.py"):
        module.write_text(module.read_text() + "\n# a comment\n")

    assert made.look().jobs == {}


def test_no_cell_is_stale_when_a_method_is_added(made: WorkingCopy) -> None:
    """A new method module changes no fingerprint."""
    (made / "src/quantlm/methods/rounding.py").write_text("STEP = 3\n")

    assert made.look().jobs == {}


def test_only_cells_of_a_method_are_stale_when_it_changes(made: WorkingCopy) -> None:
    """Its cells are planned and named, and no other one."""
    module = made / "src/quantlm/methods/gptq.py"
    module.write_text(module.read_text() + "\nCHANGED = 1\n")

    seen = made.look()

    assert seen.jobs == {"quantise": 4, "fold": 4, "table": 1, "report": 1}
    assert "make 4, stale 4" in seen.plan
    assert f"stale: {BASE}/gptq-w3g32-noclip" in seen.text


def test_old_results_return_from_the_archive_when_a_change_is_undone(few: WorkingCopy) -> None:
    """Records of another science stay archived and leave the table; undone, they are restored."""
    module = few / "src/quantlm/methods/rtn.py"
    original = module.read_text()
    rows, before = few / table(FEW), archived(few, "cells")
    shown = rows.read_bytes()
    module.write_text(original + "\nCHANGED = 1\n")
    few.snakemake(table(FEW), grid=FEW)

    after = archived(few, "cells")
    assert set(before) < set(after)
    assert len(before) + 1 == len(after)
    (old,) = [path.parent.name for path in before if "/rtn-" in str(path)]
    assert old in shown.decode()
    assert old not in rows.read_text()

    module.write_text(original)
    assert few.look(grid=FEW).jobs == {"fold": 1, "table": 1, "report": 1}
    few.snakemake(table(FEW), grid=FEW)
    assert rows.read_bytes() == shown


def test_only_evaluations_are_planned_when_the_evaluation_changes(few: WorkingCopy) -> None:
    """A new metric trains and quantises nothing."""
    script = few / "scripts/evaluate.py"
    script.write_text(script.read_text() + "\nMETRIC = 1\n")

    seen = few.look(grid=FEW)

    assert seen.jobs == {"evaluate": 3, "fold": 3, "table": 1, "report": 1}
    assert "make 3 (3 by evaluation only), stale 3" in seen.plan
    weights = archived(few, "weights")
    few.snakemake(f"results/{RTN4}/result.json", grid=FEW)
    assert weights == archived(few, "weights")


def test_only_the_tail_is_planned_when_a_budget_is_added(made: WorkingCopy) -> None:
    """A larger budget trains from the last milestone on, and touches no finished cell."""
    made.edit("config/grids/smoke.yaml", "40_000]", "40_000, 80_000]")

    seen = made.look()

    tail = {"milestone": 1, "base": 1, "quantise": 5, "qat": 1, "fold": 7, "table": 1, "report": 1}
    assert tail == seen.jobs


def test_nothing_is_planned_when_a_default_is_spelled_out(made: WorkingCopy) -> None:
    """A key that is given its default value is no change."""
    made.edit("config/grids/smoke.yaml", "method: gptq,", "method: gptq, damping: 0.01,")

    assert made.look().jobs == {}


def test_unwritten_method_is_refused_before_anything_starts(fresh: WorkingCopy) -> None:
    """A grid that names a method without a module plans, but does not start."""
    (fresh / "src/quantlm/methods/gptq.py").unlink()

    seen = fresh.snakemake(code=78)

    assert "implements gptq (4 cells), so nothing was started" in seen.text
    assert not (fresh / "archive").exists()
