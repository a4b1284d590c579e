"""What a plan will still write, against the room there is: pure sums, and one refusal.

The sums leave out what nobody knows before (somebody's own programs, how many jobs train at once,
scales of quantised matrices), so that a plan which is refused cannot fit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quantgrid import durability, layout
from quantgrid.durability import Mount
from quantgrid.errors import VolumeRefusal
from quantgrid.forms import METHODS
from quantgrid.plan import Plan, State
from quantgrid.spec import BASE, Cell, Model
from quantgrid.store import Store

TOKEN_BYTES = 2
"""Shards hold uint16 (docs/formats/corpus.md)."""
WEIGHT_BYTES = 4
STATE_BYTES = 12
"""A weight and its two moments in float32 (`quantlm.state`)."""
STATES_AT_ONCE = 3
"""The two that a stage keeps, and the one that it writes (`checkpoint.folder`)."""


class Need(NamedTuple):
    """Bytes that a plan will still write at least.

    Args:
        corpus: Shards that are not on the volume yet.
        state: Checkpoints of the largest training; they go when it is finished.
        archive: Weights, states and codes that are deposited.
    """

    corpus: int
    state: int
    archive: int


def need(plan: Plan, volume: Path) -> Need:
    """What the wanted cells of a plan will write to a volume and to an archive."""
    made = {record: model for record, model, _ in _records(plan)}
    archive = sum({record: size for record, _, size in _records(plan)}.values())
    trained = [model for record, model in made.items() if record not in _untrained(plan)]
    state = max((STATE_BYTES * num_weights(model) for model in trained), default=0)
    return Need(_corpus(plan, volume), STATES_AT_ONCE * state, archive)


def _untrained(plan: Plan) -> set[str]:
    """Records of forms that are made without training."""
    cells = (cell for cell in plan.wanted if isinstance(cell, Cell) and cell.form != BASE)
    fixed = (cell for cell in cells if not METHODS[cell.form.method].trains)
    return {plan.lineage.weights[cell.id].record for cell in fixed}


def num_weights(model: Model) -> int:
    """All parameters of a model: those of the laws, embedding and head."""
    return model.num_parameters + model.vocab_size * model.d_model * (1 if model.tied else 2)


def _records(plan: Plan) -> Iterator[tuple[str, Model, int]]:
    """Each record that must be made, with the model and the bytes of its files."""
    lineage = plan.lineage
    for cell in plan.wanted:
        if not isinstance(cell, Cell) or plan.state(cell) is not State.MAKE:
            continue
        model = cell.trunk.model
        everything = num_weights(model)
        milestone = lineage.milestones[cell.trunk.id, cell.milestone]
        states = (milestone.record, *milestone.resume)
        sizes = dict.fromkeys(states, STATE_BYTES * everything)
        sizes[lineage.bases[cell.base].record] = WEIGHT_BYTES * everything
        bits = cell.form.bits if isinstance(cell.form.bits, int) else 0
        codes = bits * model.num_parameters // 8
        sizes.setdefault(lineage.weights[cell.id].record, WEIGHT_BYTES * everything + codes)
        yield from ((key, model, size) for key, size in sizes.items() if key not in plan.index)


def _corpus(plan: Plan, volume: Path) -> int:
    """Bytes of the shards of the grid's corpus that the volume lacks; 0 when nothing is made."""
    recipe = plan.lineage.grid.corpus
    if recipe is None or not plan.num_to_make:
        return 0
    folder = layout.corpus_folder(volume, recipe.name, recipe.digest)
    there = sum(path.stat().st_size for path in folder.glob("*")) if folder.is_dir() else 0
    return max(TOKEN_BYTES * (recipe.num_tokens + recipe.validation_tokens) - there, 0)


def prove(plan: Plan, platform: durability.Platform, volume: Path, store: Store) -> None:
    """Refuse a volume that a platform does not allow, or that has no room for a plan.

    The archive is looked at as well where it is a folder; a bucket has no size.

    Raises:
        VolumeRefusal: see `durability.prove`; for an archive without room, too.
        PlatformFault: when bytes do not come back from the volume.
    """
    asked = need(plan, volume)
    archive = None if store.is_remote else durability.look(Path(store.address))
    is_shared = archive is not None and archive.point == durability.look(volume).point
    on_volume = asked.corpus + asked.state + (asked.archive if is_shared else 0)
    durability.prove_for(platform, volume, on_volume)
    if archive and not is_shared and archive.free_bytes < asked.archive:
        raise _too_small(archive, asked, store)


def _too_small(archive: Mount, asked: Need, store: Store) -> VolumeRefusal:
    return VolumeRefusal(
        "the archive has no room for what the plan deposits, so nothing was started",
        expected=f"room for {asked.archive:,} bytes",
        seen=f"{archive.free_bytes:,} bytes free, {archive}",
        where=store.address,
        do="Make room, select fewer cells with --config select=..., or name another archive.",
    )
