"""The producer: plan first, shards by rename, manifest, then the plan says that it is written.

It may die anywhere: the same call finishes the work, keeps every shard that is already right, and
ends with the same bytes.  What is whole already is only compared, never touched.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from quantgrid import atomic, layout
from quantgrid.clock import Clock
from quantgrid.corpus import record, shards
from quantgrid.corpus.manifest import Manifest, Shard
from quantgrid.corpus.plan import WRITTEN, Plan
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.shards import Tokens
from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Recipe
from quantgrid.volume import establish, locked

BEAT_S = 5.0


def produce(
    recipe: Recipe,
    volume: Path,
    stream: Iterable[Tokens],
    *,
    clock: Clock,
    producer: Producer | None = None,
    beat_s: float = BEAT_S,
) -> Manifest:
    """Bring a corpus onto a volume.

    Args:
        recipe: What is made.
        volume: Root of the volume, absolute; a local one gets an identity when it has none.
        stream: All tokens of the corpus in order, validation first, cut anywhere.
        clock: Time of heartbeats.
        producer: Who writes; this process by default.
        beat_s: Seconds between heartbeats.

    Returns:
        The manifest of what is on the volume now.

    Raises:
        CorpusRefusal: when another producer is at work, the stream has not the declared length, a
            stranger's file is in the folder, or the recipe made other tokens before.
    """
    identity = establish(volume, clock)
    folder = layout.corpus_folder(volume, recipe.name, recipe.digest)
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan.of(recipe, producer or Producer.here(), clock)
    with _alone(folder, plan.producer, clock) as before:
        _refuse_strangers(folder, {name for name, _ in _sizes(recipe)})
        writing = _Writing(folder, plan, before, clock, beat_s)
        return _write(identity.id, recipe, stream, writing)


def _write(volume: str, recipe: Recipe, stream: Iterable[Tokens], folder: "_Writing") -> Manifest:
    with folder as writing:
        files = [writing.put(name, pieces) for name, pieces in cut(recipe, stream)]
        manifest = Manifest(
            corpus=recipe.name,
            recipe=recipe.digest,
            volume=volume,
            shards=tuple(files[1:]),
            validation=files[0],
        )
        writing.finish(manifest)
    return manifest


def cut(recipe: Recipe, stream: Iterable[Tokens]) -> Iterator[tuple[str, list[Tokens]]]:
    """Cut a stream into the files of a recipe: name and pieces of it, validation first.

    Raises:
        CorpusRefusal: when the stream is shorter than the recipe declares, or longer and the
            recipe does not leave what is over.
    """
    declared = recipe.validation_tokens + recipe.num_tokens
    source, rest, made = iter(stream), np.empty(0, np.uint16), 0
    for name, size in _sizes(recipe):
        pieces, held = [rest], len(rest)
        while held < size and (piece := next(source, None)) is not None:
            pieces.append(piece)
            held += len(piece)
        if held < size:
            raise _other_length(recipe, declared, made + held)
        pieces[-1], rest = np.split(pieces[-1], [len(pieces[-1]) - (held - size)])
        yield name, pieces
        made += size
    if recipe.surplus == "leave":
        return
    if over := len(rest) + sum(map(len, source)):
        raise _other_length(recipe, declared, made + over)


def _sizes(recipe: Recipe) -> Iterator[tuple[str, int]]:
    yield layout.VALIDATION_SHARD, recipe.validation_tokens
    for index, size in enumerate(recipe.shard_sizes):
        yield layout.shard_name(index), size


def _other_length(recipe: Recipe, declared: int, seen: int) -> CorpusRefusal:
    return CorpusRefusal(
        f"the texts of corpus {recipe.name} make another number of tokens than it declares",
        expected=f"{declared:,} tokens ({recipe.num_tokens:,} to train on)",
        seen=f"{seen:,} tokens",
        do=f"`quantgrid corpus pin {recipe.name}` counts them again.",
    )


def _refuse_strangers(folder: Path, names: set[str]) -> None:
    if strangers := shards.strangers(folder, names):
        raise CorpusRefusal(
            "files in this corpus folder are none of the corpus",
            expected=f"at most the {len(names)} files of its recipe",
            seen=f"{len(strangers)} others{record.named('extra', strangers)}",
            where=folder,
            do="Move them elsewhere, then try again.",
        )


@contextmanager
def _alone(folder: Path, me: Producer, clock: Clock) -> Iterator[Manifest | None]:
    """Keep every other producer out; clear what dead ones left.

    Yields:
        The manifest of a corpus that was written to the end before, else None.

    Raises:
        CorpusRefusal: when another producer is at work, here or on another machine.
    """
    with locked(folder, wait=False) as is_mine:
        plan = _found_plan(folder)
        is_other = plan is not None and not plan.producer.is_same_process(me)
        if not is_mine or (plan is not None and is_other and plan.is_live(clock)):
            raise CorpusRefusal(
                "another producer is writing this corpus",
                expected="nobody at work",
                seen=f"{plan.producer}, heartbeat {plan.heartbeat}" if plan else "a held folder",
                where=folder,
                do="Wait until it has finished; if it died elsewhere, try again in a minute.",
            )
        for path in folder.iterdir():
            if atomic.is_debris(path.name):
                path.unlink()
        yield _found_manifest(folder) if plan is not None and plan.state == WRITTEN else None


def _found_plan(folder: Path) -> Plan | None:
    try:
        return Plan.read(folder)
    except CorpusRefusal:
        return None


def _found_manifest(folder: Path) -> Manifest | None:
    try:
        return Manifest.read(folder)
    except CorpusRefusal:
        return None


class _Writing:
    """A corpus folder in the hands of its producer: invalidate, mutate, publish."""

    def __init__(
        self, folder: Path, plan: Plan, known: Manifest | None, clock: Clock, beat_s: float
    ) -> None:
        self._folder, self._plan, self._known = folder, plan, known
        self._clock, self._beat_s = clock, beat_s
        self._is_writing = False
        self._lost: Plan | None = None
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "_Writing":
        if self._known is None:
            self._invalidate()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def put(self, name: str, pieces: Sequence[Tokens]) -> Shard:
        """Make sure that a shard holds the tokens of these pieces; a whole one is kept."""
        shard = shards.describe(name, pieces)
        self._refuse_other_tokens(shard)
        if not shards.holds(self._folder / name, shard):
            self._invalidate()
            shards.write(self._folder / name, pieces)
        return shard

    def finish(self, manifest: Manifest) -> None:
        """Publish the manifest, then say that the corpus is written."""
        if manifest == self._known and not self._is_writing:
            return
        self._invalidate()
        atomic.publish_json(self._folder / layout.CORPUS_MANIFEST, manifest.to_json())
        self._stop()
        self._plan.beat(self._clock, WRITTEN).publish(self._folder)

    def _invalidate(self) -> None:
        """Say that the corpus is being written, before anything in it changes."""
        self._check_ours()
        if self._is_writing:
            return
        self._is_writing = True
        self._plan.publish(self._folder)
        (self._folder / layout.CORPUS_MANIFEST).unlink(missing_ok=True)
        self._heart.start()

    def _refuse_other_tokens(self, shard: Shard) -> None:
        """One recipe has one content: other tokens mean that the code changed, not the recipe."""
        files = {each.name: each for each in self._known.files()} if self._known else {}
        if self._known is not None and files.get(shard.name) != shard:
            seen = files.get(shard.name)
            raise CorpusRefusal(
                f"recipe {self._plan.recipe[:16]} makes another {shard.name} than it made before",
                expected=f"sha256 {seen.sha256 if seen else 'none'} (the manifest on this volume)",
                seen=f"sha256 {shard.sha256}",
                where=self._folder,
                do="Undo the change of quantlm/text.py; or remove the folder, if it was meant.",
            )

    def _beat(self) -> None:
        while not self._over.wait(self._beat_s):
            found = _found_plan(self._folder)
            if found is not None and found.producer.id != self._plan.producer.id:
                self._lost = found
                return
            self._plan.beat(self._clock).publish(self._folder)

    def _check_ours(self) -> None:
        if self._lost is not None:
            raise CorpusRefusal(
                "another producer took this corpus over while this one was silent",
                expected=self._plan.producer,
                seen=self._lost.producer,
                where=self._folder,
            )

    def _stop(self) -> None:
        self._over.set()
        if self._heart.is_alive():
            self._heart.join()
