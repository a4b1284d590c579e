"""A row enters only if it is the wanted one, whole, and comparable with its base."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quantgrid.errors import ConfigRefusal, Refusal
from quantgrid.report.records import Grid, read_grid, read_wanted
from report_records import FORMS, NONE, demo_records, write_grid

Record = dict[str, Any]

GPTQ = "n0-t400k-s0/gptq-w3g32-noclip"
OTHER = "n0-t400k-s1/gptq-w3g32-noclip"
BASE = "n0-t400k-s1/none"


def small_records() -> dict[str, Record]:
    """Two seeds of three forms at one budget."""
    forms = (FORMS[0], FORMS[2], FORMS[3])
    return demo_records(budgets={"t400k": 400_000}, seeds=2, forms=forms, sequences=8)


def read(folder: Path, records: dict[str, Record]) -> Grid:
    """Write a grid and read it."""
    wanted, results = write_grid(folder, records)
    return read_grid(read_wanted(wanted), results)


def spoil_text(path: Path, change: Callable[[Record], object]) -> None:
    """Change a written record without renewing its digest."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_grid_keeps_plan_order_when_all_is_well(tmp_path: Path) -> None:
    """Every wanted cell is read, in the order of the plan."""
    records = small_records()

    grid = read(tmp_path, records)

    assert [cell.id for cell in grid.cells] == list(records)
    assert grid.families() == ["n0 shakespeare"]


def test_missing_cells_are_refused_when_a_result_is_gone(tmp_path: Path) -> None:
    """All missing cells are named, with how many there should be."""
    wanted, results = write_grid(tmp_path, small_records())
    for cell in (GPTQ, OTHER):
        (results / cell / "result.json").unlink()

    with pytest.raises(Refusal) as refusal:
        read_grid(read_wanted(wanted), results)

    assert refusal.value.exit_code == 78
    assert "2 of 6 cells" in str(refusal.value)
    assert f"2 missing: {GPTQ}, {OTHER}" in str(refusal.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["results"].update(loss=1.0),
        lambda record: record["results"]["validation"]["losses"].__setitem__(3, 1.0),
        lambda record: record.pop("digest"),
        lambda record: record.clear(),
        lambda record: record.update(digest="0" * 64),
    ],
)
def test_damaged_cells_are_refused_when_the_digest_differs(
    tmp_path: Path, change: Callable[[Record], object]
) -> None:
    """One changed number, or no digest at all: the cell is named as damaged."""
    wanted, results = write_grid(tmp_path, small_records())
    spoil_text(results / GPTQ / "result.json", change)

    with pytest.raises(Refusal, match=f"1 damaged .*{GPTQ}"):
        read_grid(read_wanted(wanted), results)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe"])
def test_damaged_cells_are_refused_when_not_a_record(tmp_path: Path, data: bytes) -> None:
    """A torn or foreign file is damaged, not a traceback."""
    wanted, results = write_grid(tmp_path, small_records())
    (results / GPTQ / "result.json").write_bytes(data)

    with pytest.raises(Refusal, match=f"1 damaged .*{GPTQ}"):
        read_grid(read_wanted(wanted), results)


def test_incomplete_cells_are_refused_when_losses_are_short(tmp_path: Path) -> None:
    """A record with fewer losses than sequences cannot be paired, whatever its digest."""
    records = small_records()
    records[GPTQ]["results"]["validation"]["losses"].pop()

    with pytest.raises(Refusal, match=f"1 damaged .*{GPTQ}"):
        read(tmp_path, records)


def test_stale_cells_are_refused_when_the_plan_wants_another(tmp_path: Path) -> None:
    """A whole record of another fingerprint never reaches a table."""
    wanted, results = write_grid(tmp_path, small_records())
    plan = json.loads(wanted.read_text())
    plan["cells"][GPTQ] = "f" * 64
    wanted.write_text(json.dumps(plan))

    with pytest.raises(Refusal, match=f"1 stale .*{GPTQ}"):
        read_grid(read_wanted(wanted), results)


def test_foreign_cells_are_refused_when_measured_on_another_set(tmp_path: Path) -> None:
    """A cell on another validation set than its base's cannot be compared with it."""
    records = small_records()
    records[GPTQ]["results"]["validation"]["id"] = "e" * 64

    with pytest.raises(Refusal, match=f"1 measured on another validation set than.*{GPTQ}"):
        read(tmp_path, records)


def test_scattered_bases_are_refused_when_seeds_cannot_be_averaged(tmp_path: Path) -> None:
    """Seeds of one family on different validation sets have no common sequences."""
    records = small_records()
    for cell, record in records.items():
        if cell.startswith("n0-t400k-s1/"):
            record["results"]["validation"]["id"] = "e" * 64

    with pytest.raises(Refusal, match=f"the family's other bases: {BASE}"):
        read(tmp_path, records)


def test_baseless_cells_are_refused_when_the_grid_lacks_the_base(tmp_path: Path) -> None:
    """A form without its base in the grid has no damage."""
    records = small_records()
    del records[BASE]

    with pytest.raises(Refusal, match=f"2 without their base in the grid: .*{OTHER}"):
        read(tmp_path, records)


def test_all_kinds_are_named_when_several_go_wrong(tmp_path: Path) -> None:
    """One refusal tells a person everything there is to mend."""
    records = small_records()
    records[OTHER]["results"]["validation"]["id"] = "e" * 64
    wanted, results = write_grid(tmp_path, records)
    (results / GPTQ / "result.json").unlink()

    with pytest.raises(Refusal) as refusal:
        read_grid(read_wanted(wanted), results)

    assert "1 missing" in str(refusal.value)
    assert "1 measured on another validation set" in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", '{"grid": "demo"}', '{"cells": {}}'])
def test_plan_is_refused_when_it_is_no_list_of_cells(tmp_path: Path, text: str) -> None:
    """A file that is no plan is named."""
    path = tmp_path / "demo.json"
    path.write_text(text)

    with pytest.raises(ConfigRefusal, match=r"demo\.json"):
        read_wanted(path)


@pytest.mark.parametrize("verdict", ["SUSPECT", "INVALID", {"verdict": "INVALID", "judge": 1}])
def test_doubted_cells_are_not_averaged_when_judged(tmp_path: Path, verdict: object) -> None:
    """A doubted cell is shown and enters no average; its seeds still do."""
    records = small_records()
    records[GPTQ]["verdict"] = verdict

    grid = read(tmp_path, records)

    averaged = grid.seeds_of("n0 shakespeare", 400_000, "gptq-w3g32-noclip")
    assert [cell.seed for cell in averaged] == [1]
    assert len(grid.cells) == 6


def test_forms_are_not_averaged_when_their_base_is_doubted(tmp_path: Path) -> None:
    """Damage against an invalid base is no damage."""
    records = small_records()
    records[BASE]["verdict"] = "INVALID"

    grid = read(tmp_path, records)

    for variant in (NONE.id, "rtn-w3g32-noclip", "gptq-w3g32-noclip"):
        assert [c.seed for c in grid.seeds_of("n0 shakespeare", 400_000, variant)] == [0]


def test_families_stay_apart_when_the_corpus_is_bounded(tmp_path: Path) -> None:
    """Bases that saw a bounded corpus several times are no seeds of those that did not."""
    records = small_records()
    for cell, record in records.items():
        if cell.startswith("n0-t400k-s1/"):
            record["spec"]["cell"]["trunk"] |= {"unique_tokens": 100_000, "passes": 4}

    grid = read(tmp_path, records)

    assert set(grid.families()) == {"n0 shakespeare", "n0-u100000p4 shakespeare"}


def test_family_is_not_drawn_when_it_has_bases_alone(tmp_path: Path) -> None:
    """A control of passes has no form: it is in the table, and no panel or sentence is its own."""
    records = small_records()
    for cell, record in list(records.items()):
        if cell.startswith("n0-t400k-s1/"):
            record["spec"]["cell"]["trunk"] |= {"unique_tokens": 100_000, "passes": 4}
            if not cell.endswith("/none"):
                del records[cell]

    grid = read(tmp_path, records)

    assert len(grid.families()) == 2
    assert grid.quantised_families() == ["n0 shakespeare"]
    assert read(tmp_path, {"n0-t400k-s1/none": records["n0-t400k-s1/none"]}).quantised_families()
