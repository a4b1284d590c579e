"""The seal: another process than the producer reads everything again, then vouches for it."""

from pathlib import Path

from quantgrid import layout
from quantgrid.clock import Clock, timestamp
from quantgrid.corpus import shards
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.plan import Plan
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import DECLARED, SENTINEL_SCHEMA, Statement, compare, read_prepared
from quantgrid.corpus.view import Reload, look, nothing_to_reload
from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Recipe
from quantgrid.volume import require


def seal(
    recipe: Recipe,
    volume: Path,
    prepared: Path,
    sentinel: Path,
    *,
    clock: Clock,
    sealer: Producer | None = None,
    reload: Reload = nothing_to_reload,
) -> Statement:
    """Look at a corpus with fresh eyes and publish the sentinel.

    Args:
        recipe: What the corpus should be.
        volume: Root of the volume, absolute.
        prepared: The receipt of the producer.
        sentinel: Where the sentinel goes; an older one there is withdrawn first.
        clock: Time of the seal.
        sealer: Who seals; this process by default.
        reload: Refreshes what this machine sees of the volume.

    Raises:
        CorpusRefusal: when the producer seals its own work, is still at work, or when anything
            differs between receipt, recipe, plan, manifest and the bytes of every shard.
    """
    sentinel.unlink(missing_ok=True)
    sealer = sealer or Producer.here()
    said = read_prepared(prepared)
    _refuse_own_work(said, sealer, prepared)
    _compare_recipe(recipe, said, prepared, clock)
    folder = layout.corpus_folder(volume, recipe.name, recipe.digest)
    reload(folder)
    require(volume, said.volume)
    manifest = look(folder, said, clock)
    _read_all(folder, manifest)
    sealed = Statement.of(manifest, sealer, timestamp(clock.now()))
    sealed.publish(sentinel, SENTINEL_SCHEMA)
    return sealed


def _read_all(folder: Path, manifest: Manifest) -> None:
    for shard in manifest.files():
        shards.open_verified(folder, manifest, shard)


def _refuse_own_work(said: Statement, sealer: Producer, prepared: Path) -> None:
    if said.by.is_same_process(sealer):
        raise CorpusRefusal(
            "a producer cannot seal its own work: it would see what it remembers",
            expected="another process",
            seen=said.by,
            where=prepared,
            do="Seal with `quantgrid seal`.",
        )


def _compare_recipe(recipe: Recipe, said: Statement, prepared: Path, clock: Clock) -> None:
    asked = Plan.of(recipe, said.by, clock)
    compare(asked, said, DECLARED, "the receipt of the producer", prepared)
