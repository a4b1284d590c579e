"""What a grid would cost follows from its cells, and shared work is counted once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid.costs import BlockCost, block_costs, total, training_flops
from quantgrid.devices import Device, load_device
from quantgrid.errors import ConfigRefusal
from quantgrid.grid import Grid
from quantgrid.load import load_grid, load_model
from quantgrid.main import dispatch

FREE = Device(
    name="d", usd_per_hour=0.0, source="s", date="2026-01-01", cell_s=0.0, sustained=((1, 1.0),)
)


@pytest.fixture(scope="module")
def paper(root: Path) -> Grid:
    """The 1,008 cells."""
    return load_grid(root, "paper")


def _part(grid: Grid, *blocks: str) -> Grid:
    return replace(grid, cells=tuple(cell for cell in grid.cells if cell.block in blocks))


def test_paper_costs_what_was_planned(root: Path, paper: Grid) -> None:
    """Blocks in order with their cells; A0 about 16 H100-hours and all 20 to 40 (QU 2)."""
    costs = block_costs(paper, load_device(root, "h100"))

    assert [(each.block, each.num_cells) for each in costs] == [
        ("A0", 60),
        ("A1", 720),
        ("B", 144),
        ("C", 72),
        ("D", 12),
    ]
    assert costs[0].hours == pytest.approx(16, rel=0.1)
    assert 20 < total(costs).hours < 40
    assert total(costs).usd == pytest.approx(total(costs).hours * 2.69)
    assert total(costs).num_cells == 1008


def test_a_trunk_with_branches_costs_what_its_tokens_do(root: Path, paper: Grid) -> None:
    """93 N tokens instead of 145 N for four lengths of a model (QU 2), and evaluations."""
    n100 = load_model(root, "n100")
    cells = tuple(c for c in _part(paper, "A0").cells if c.trunk.id == "n100-s0")

    (cost,) = block_costs(replace(paper, cells=cells), FREE)

    assert len(cells) == 4
    trained = cost.flops / training_flops(n100) / n100.num_parameters
    evaluated = 4 * 1536 * n100.context / 3 / n100.num_parameters
    assert trained - evaluated == pytest.approx(93, abs=0.1)


def test_shared_work_is_counted_in_the_first_block_alone(paper: Grid) -> None:
    """Forms after training cost their evaluation beside their bases, and the bases without."""
    bases, forms = _part(paper, "A0"), _part(paper, "A1")

    together = block_costs(_part(paper, "A0", "A1"), FREE)
    alone = block_costs(forms, FREE)

    assert together[0].flops == block_costs(bases, FREE)[0].flops
    assert together[1].flops < 0.01 * together[0].flops
    assert alone[0].flops == pytest.approx(total(together).flops, rel=0.001)


def test_training_from_the_first_step_costs_five_cool_downs(paper: Grid) -> None:
    """A scratch form trains all steps, a cool-down form a fifth of them."""
    costs = {}
    for variant in ("qat-w4g32-noclip", "qat-w4g32-noclip-scratch"):
        cells = [c for c in paper.cells if c.base == "n30-x20-s0"]
        chosen = [c for c in cells if c.variant in ("none", variant)]
        only_base = [c for c in cells if c.variant == "none"]
        with_form, without = (
            total(block_costs(replace(paper, cells=tuple(each)), FREE)).flops
            for each in (chosen, only_base)
        )
        costs[variant] = with_form - without

    first, second = costs.values()
    assert second / first == pytest.approx(5, rel=0.02)


def test_speed_lies_on_a_line_in_logarithms_and_is_flat_beyond() -> None:
    """Known sizes have their speed, the one between the mean of the logarithms."""
    device = replace(FREE, sustained=((100, 10.0), (10_000, 1000.0)))

    assert [device.tflops(n) for n in (1, 100, 1000, 10_000, 10**9)] == pytest.approx(
        [10, 10, 100, 1000, 1000]
    )


def test_seconds_of_a_cell_and_its_price_are_added() -> None:
    """36 seconds a cell at 100 dollars an hour are one dollar."""
    costs = [BlockCost("a", 1, 1.0, 0.01, 1.0), BlockCost("b", 2, 2.0, 0.02, 2.0)]

    assert total(costs) == BlockCost("total", 3, 3.0, pytest.approx(0.03), 3.0)


def test_device_is_refused_when_it_is_not_there_or_its_sizes_fall(
    root: Path, tmp_path: Path
) -> None:
    """An unknown name lists the devices; sizes out of order name file and line."""
    with pytest.raises(ConfigRefusal, match="'h10' is no device, did you mean 'h100'"):
        load_device(root, "h10")

    for part in ("config/schemas", "config/devices"):
        (tmp_path / part).mkdir(parents=True)
        for file in (root / part).iterdir():
            (tmp_path / part / file.name).write_text(file.read_text())
    path = tmp_path / "config/devices/h100.yaml"
    path.write_text(path.read_text().replace("4_500_000", "99_000_000"))
    with pytest.raises(ConfigRefusal, match=r"do not ascend \(config/devices/h100.yaml:\d+\)"):
        load_device(tmp_path, "h100")


def test_cells_command_prints_each_block_and_the_total(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table, as JSON, and for a part of the grid."""
    options = ["cells", "--root", str(root), "--grid", "paper", "--blocks"]
    assert dispatch(options) == 0
    table = capsys.readouterr().out
    assert dispatch([*options, "h100", "--select", "block=D", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)

    assert [line.split()[0] for line in table.splitlines()] == [
        "block", "A0", "A1", "B", "C", "D", "total",
    ]  # fmt: skip
    assert [(row["block"], row["num_cells"]) for row in rows] == [("D", 12), ("total", 12)]
