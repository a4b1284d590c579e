"""The table: what each column holds, and that equal records give equal bytes."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.report.table import COLUMNS, csv_bytes, documentation, lines
from report_records import demo_records, frame, write_demo, write_grid

if TYPE_CHECKING:
    import pandas as pd


@pytest.fixture(scope="module")
def table(demo: Grid) -> "pd.DataFrame":
    """The table as any reader sees it: through its bytes."""
    import pandas as pd  # half a second, for these tests alone

    return pd.read_csv(io.BytesIO(csv_bytes(lines(demo))), index_col="cell")


def test_table_has_a_row_a_cell_when_written(demo: Grid, table: "pd.DataFrame") -> None:
    """All cells, in the order of the plan."""
    assert list(table.index) == [cell.id for cell in demo.cells]
    assert len(table) == 105


def test_delta_is_paired_when_computed_by_hand(demo_files: tuple[Path, Path]) -> None:
    """Damage, error and z equal the textbook's from the raw record."""
    cell, base = "n0-t800k-s1/rtn-w2g32-asym", "n0-t800k-s1/none"
    wanted, results = demo_files
    losses = [
        np.array(
            json.loads((results / each / "result.json").read_text())["results"]["validation"][
                "losses"
            ]
        )
        for each in (cell, base)
    ]
    difference = losses[0] - losses[1]
    se = np.std(difference, ddof=1) / np.sqrt(384)

    row = frame(lines(read_grid(read_wanted(wanted), results))).set_index("cell").loc[cell]

    assert row["delta"] == f"{difference.mean():.6f}"
    assert row["delta_se"] == f"{se:.6f}"
    assert row["z"] == f"{difference.mean() / se:.2f}"


def test_columns_say_what_the_record_says_when_read(table: "pd.DataFrame") -> None:
    """Sizes, tokens and kinds come from the record; training facts of a form from its base."""
    row = table.loc["n0-t1600k-s2/gptq-w2g32-asym"]

    assert row["total_bytes"] == row["packed_bytes"] + row["other_bytes"] == 34112 + 33408
    assert (row["parameters"], row["tokens"], row["tokens_seen"]) == (106_816, 1_600_000, 1_599_488)
    assert row["tokens_per_parameter"] == pytest.approx(1_599_488 / 106_816, abs=1e-4)
    assert (row["method"], row["bits"], row["group"]) == ("gptq", "2", "32")
    assert (row["zero_point"], row["verdict"], row["device"]) == ("yes", "VALID", "cpu")
    assert row["train_loss"] == table.loc["n0-t1600k-s2/none", "train_loss"]
    assert row["cpu_s"] == pytest.approx(0.398 + 1.232)
    assert row.isna()["scale"]


def test_base_has_no_damage_when_written(table: "pd.DataFrame") -> None:
    """A base loses nothing against itself, and has no z."""
    bases = table[table["variant"] == "none"]

    assert len(bases) == 15
    assert (bases["delta"] == 0).all()
    assert bases["z"].isna().all()


def test_bytes_are_equal_when_records_are_equal(tmp_path: Path) -> None:
    """Written twice, in folders of other names: the same bytes."""
    one, other = (
        csv_bytes(lines(read_grid(read_wanted(wanted), results)))
        for wanted, results in (
            write_demo(tmp_path / name, seeds=1, sequences=16) for name in ("one", "other")
        )
    )

    assert one == other
    assert b"\r" not in one


def test_fields_are_empty_when_a_record_does_not_say(tmp_path: Path) -> None:
    """What was not recorded is empty, never a guess."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    for record in records.values():
        record["weights"]["results"] = {}
        del record["results"]["kl"], record["work"]

    wanted, results = write_grid(tmp_path, records)
    row = frame(lines(read_grid(read_wanted(wanted), results))).iloc[1]

    empty = ["kl", "packed_bytes", "total_bytes", "bits_per_weight", "train_loss", "cpu_s"]
    assert list(row[empty]) == [""] * len(empty)
    assert row["tokens_seen"] == "400000"


def test_verdict_is_shown_when_judged(tmp_path: Path) -> None:
    """A SUSPECT cell is shown with its numbers, an INVALID one with its reason alone."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    records["n0-t400k-s0/rtn-w3g32-noclip"]["verdict"] = "SUSPECT"
    bad = {"verdict": "INVALID", "reason": "planted", "by": {"judge": 1}}
    records["n0-t400k-s0/gptq-w3g32-noclip"]["verdict"] = bad

    wanted, results = write_grid(tmp_path, records)
    table = frame(lines(read_grid(read_wanted(wanted), results))).set_index("cell")

    assert table["verdict"].value_counts().to_dict() == {"VALID": 5, "SUSPECT": 1, "INVALID": 1}
    row = table.loc["n0-t400k-s0/gptq-w3g32-noclip"]
    measured = ["loss", "delta", "delta_se", "z", "kl", "train_loss"]
    assert [*row[measured], row["reason"]] == [*[""] * 6, "planted"]
    assert table.loc["n0-t400k-s0/rtn-w3g32-noclip", "loss"] != ""


def test_forms_share_the_verdict_of_their_base_when_it_is_worse(tmp_path: Path) -> None:
    """No number of a form of an INVALID base is written."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    bad = {"verdict": "INVALID", "reason": "planted", "by": {"judge": 1}}
    records["n0-t400k-s0/none"]["verdict"] = bad

    wanted, results = write_grid(tmp_path, records)
    table = frame(lines(read_grid(read_wanted(wanted), results))).set_index("cell")

    assert set(table["verdict"]) == {"INVALID"}
    assert set(table["loss"]) == {""}
    assert table.loc["n0-t400k-s0/rtn-w3g32-noclip", "reason"] == "its base is INVALID: planted"


def test_differences_are_named_when_cells_were_made_otherwise(tmp_path: Path) -> None:
    """Another version, device or evaluation code stands beside the number it may explain."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=2, sequences=16)
    one, two = "n0-t400k-s0/rtn-w3g32-noclip", "n0-t400k-s1/none"
    place = records[one]["platform"]
    records[one]["platform"] = {**place, "packages": {"torch": "2.0.0"}}
    records[two] |= {"platform": {**place, "device": "cuda"}, "science": "0" * 64}

    wanted, results = write_grid(tmp_path, records)
    table = frame(lines(read_grid(read_wanted(wanted), results))).set_index("cell")

    assert table.loc[one, "differs"] == "environment"
    assert table.loc[two, "differs"] == "science platform"
    assert table.loc["n0-t400k-s0/none", "differs"] == ""


def test_document_equals_the_columns_when_generated(root: Path) -> None:
    """docs/formats/table.md describes each column that is written, in order."""
    text = (root / "docs" / "formats" / "table.md").read_text()

    assert text == documentation(), "write documentation() into docs/formats/table.md"
    assert all(f"| `{column.name}` |" in text for column in COLUMNS)


def test_modules_are_light_when_imported() -> None:
    """Importing the commands loads neither pandas, matplotlib, jinja2 nor torch."""
    script = (
        "import sys, quantgrid.commands.table, quantgrid.commands.report\n"
        "print({'pandas', 'matplotlib', 'jinja2', 'torch'} & set(sys.modules))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert seen.stdout.strip() == "set()"
