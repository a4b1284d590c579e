"""Every block of the paper grid at the smallest size: n0, two seeds, in one command."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import working_copy
from quantgrid.grid import Grid
from quantgrid.load import load_grid
from quantgrid.spec import Form

WIDE = 128
"""A group of `paper` that does not divide the widths of n0."""
MANY_PASSES = 16
"""From so many on the training loss runs away from the other one, which the watch calls a gap."""


@pytest.mark.nightly
@pytest.mark.timeout(3 * 3600)  # a quarter of an hour alone; other work makes it longer
def test_every_block_is_computed_and_fits_are_drawn_in_one_command(
    tmp_path: Path, root: Path
) -> None:
    """No cell fails, every block has its rows, and the page draws the fitted laws of damage."""
    copy = working_copy.lay(tmp_path / "copy", light=False)

    copy.snakemake("--quiet", "all", grid="miniature", timeout_s=3 * 3600)

    assert_whole(copy, load_grid(root, "miniature"))


def assert_whole(copy: working_copy.WorkingCopy, grid: Grid) -> None:
    """All rows, nothing doubted but what saw the same tokens again and again, and fits."""
    with (copy / "results/miniature.csv").open(newline="") as file:
        rows = {row["cell"]: row for row in csv.DictReader(file)}
    many = {cell.id for cell in grid.cells if cell.trunk.passes >= MANY_PASSES}
    doubted = {cell for cell, row in rows.items() if row["verdict"] != "VALID"}
    assert rows.keys() == {cell.id for cell in grid.cells}
    assert all(0 < float(row["loss"]) < 6 for row in rows.values())
    assert doubted <= many, doubted
    assert all(rows[cell]["reason"].startswith("gap: ") for cell in doubted)
    assert 'id="fits-title"' in (copy / "results/miniature.html").read_text()
    told = copy.quantgrid("fit", "results/miniature.csv", "--damage").text
    print(f"{len(rows)} cells, doubted {sorted(doubted)}\n{told}")
    assert "rtn row noclip" in told


def test_miniature_has_every_form_of_paper_in_its_block(root: Path) -> None:
    """Block by block the same forms, with smaller groups where n0 has no room for 128."""
    paper, miniature = load_grid(root, "paper"), load_grid(root, "miniature")

    small = _forms(miniature)
    for block, forms in _forms(paper).items():
        assert all(small[block] & _fitting(form) for form in forms), block
        assert len(small[block]) == len(forms), block
    assert {cell.trunk.passes for cell in miniature.cells if cell.block == "D"} == {1, 4, 16, 32}


def _forms(grid: Grid) -> dict[str, set[Form]]:
    found: dict[str, set[Form]] = {}
    for cell in grid.cells:
        found.setdefault(cell.block, set()).add(cell.form)
    return found


def _fitting(form: Form) -> set[Form]:
    """What stands for a form where widths are those of n0."""
    return {replace(form, group=size) for size in (32, 64)} if form.group == WIDE else {form}
