"""What a plan will still write is summed before it starts, and refused where it cannot fit."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from quantgrid import layout, room
from quantgrid.errors import VolumeRefusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid, load_platform
from quantgrid.plan import Plan
from quantgrid.store.folder import FolderStore
from quantlm.model import Architecture, Transformer


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """The smoke grid: 7 forms of 2 bases of one trunk."""
    return trace(load_grid(root, "smoke"), Science(root))


def _plan(lineage: Lineage, index: frozenset[str] = frozenset()) -> Plan:
    return Plan(lineage, index, {}, lineage.grid.cells)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_counted_as_torch_counts_them(lineage: Lineage, tied: bool) -> None:
    """Every parameter of the real model, with one matrix or two for embedding and head."""
    model = replace(lineage.grid.cells[0].trunk.model, tied=tied)
    made = Transformer(Architecture.of(asdict(model)))

    assert room.num_weights(model) == sum(each.numel() for each in made.parameters())


def test_need_is_everything_when_nothing_is_there(lineage: Lineage, tmp_path: Path) -> None:
    """Shards, checkpoints, and the files of two milestones, two bases and twelve forms."""
    model = lineage.grid.cells[0].trunk.model
    weights, matrices = room.num_weights(model), model.num_parameters
    codes = sum(matrices * bits // 8 for bits in (4, 3, 3, 2, 2))

    asked = room.need(_plan(lineage), tmp_path)

    assert asked.corpus == 2 * (4_958_894 + 98_304)
    assert asked.state == 3 * 12 * weights
    assert asked.archive == 2 * (12 + 4 + 6 * 4) * weights + 2 * codes


def test_need_is_less_when_parts_are_there(lineage: Lineage, tmp_path: Path) -> None:
    """Shards on the volume and records in the archive are not written again."""
    recipe = lineage.grid.corpus
    assert recipe is not None
    folder = layout.corpus_folder(tmp_path, recipe.name, recipe.digest)
    folder.mkdir(parents=True)
    (folder / layout.shard_name(0)).write_bytes(bytes(200_128))
    trunks = frozenset(stage.record for stage in lineage.milestones.values())

    asked = room.need(_plan(lineage, trunks), tmp_path)

    everything = room.need(_plan(lineage), tmp_path / "empty")
    weights = room.num_weights(lineage.grid.cells[0].trunk.model)
    assert asked.corpus == everything.corpus - 200_128
    assert asked.archive == everything.archive - 2 * 12 * weights


def test_need_is_nothing_when_everything_is_archived(lineage: Lineage, tmp_path: Path) -> None:
    """Results that are only restored need neither corpus nor state."""
    index = frozenset(stage.record for stage in lineage.cells.values())

    assert room.need(_plan(lineage, index), tmp_path) == (0, 0, 0)


def test_plan_is_refused_when_it_does_not_fit(lineage: Lineage, root: Path, tmp_path: Path) -> None:
    """A corpus of exabytes is refused with both numbers before anything is written."""
    recipe = lineage.grid.corpus
    assert recipe is not None
    large = replace(recipe, num_tokens=1 << 60, shard_tokens=1 << 60)
    plan = _plan(replace(lineage, grid=replace(lineage.grid, corpus=large)))
    platform, store = load_platform(root, "local"), FolderStore(tmp_path / "archive")

    with pytest.raises(VolumeRefusal, match=r"expected room for 2,305,8\S+ bytes; seen \S+ bytes"):
        room.prove(plan, platform, tmp_path / "volume", store)

    assert list(tmp_path.iterdir()) == []
