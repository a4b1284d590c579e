"""A seal vouches only for what it read again itself, in another process than the producer."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import small_corpus
from quantgrid import layout
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import read_sentinel
from quantgrid.errors import CorpusRefusal
from small_corpus import ELSEWHERE, SmallCorpus, flip, prepare, swap


def test_seal_states_what_it_read_when_nothing_differs(fresh: SmallCorpus) -> None:
    """The sentinel has the totals, the digests, the volume, and who looked when."""
    manifest = fresh.produce()

    fresh.seal()

    sealed = read_sentinel(fresh.sentinel)
    assert (sealed.corpus, sealed.recipe) == ("small", fresh.recipe.digest)
    assert (sealed.num_shards, sealed.num_tokens, sealed.validation_tokens) == (6, 585, 65)
    assert (sealed.manifest, sealed.volume) == (manifest.digest, manifest.volume)
    assert sealed.by == ELSEWHERE
    assert not fresh.sentinel.is_relative_to(fresh.volume)


def _receipt(corpus: SmallCorpus, **changes: object) -> None:
    corpus.prepared.write_text(json.dumps(json.loads(corpus.prepared.read_text()) | changes))


FAULTS: list[tuple[Callable[[SmallCorpus], object], list[str]]] = [
    (lambda c: c.shard(2).unlink(), ["expected 7 files", "missing shard-00002.npy"]),
    (lambda c: c.shard(2).write_bytes(b"12"), ["is short", "expected 328 bytes", "seen 2 bytes"]),
    (lambda c: c.shard(6).write_bytes(b"12"), ["seen 8 files", "extra shard-00006.npy"]),
    (lambda c: flip(c.shard(5)), ["shard-00005.npy is not what was sealed", "seen sha256"]),
    (lambda c: flip(c.folder / layout.VALIDATION_SHARD), ["validation.npy is not what"]),
    (lambda c: swap(c.shard(0), c.shard(1)), ["which is shard-00001.npy"]),
    (lambda c: flip(c.folder / layout.CORPUS_MANIFEST), ["manifest"]),
    (lambda c: _receipt(c, manifest="0" * 64), [f"expected manifest {'0' * 64}"]),
    (lambda c: _receipt(c, num_tokens=5850), ["expected num_tokens 585 ", "seen num_tokens 5,850"]),
    (lambda c: _receipt(c, volume="0123"), ["expected volume 0123", "you look at another volume"]),
    (lambda c: _receipt(c, by={}), ["receipt of the producer of this corpus cannot be read"]),
    (lambda c: c.prepared.unlink(), ["receipt of the producer of this corpus is not here"]),
    (
        lambda c: c.leave_plan_of(ELSEWHERE, timestamp(SystemClock().now())),
        ["still writing", "process 4711 on elsewhere"],
    ),
]


@pytest.mark.parametrize(("damage", "said"), FAULTS)
def test_seal_refuses_and_withdraws_when_anything_differs(
    corpus: SmallCorpus, damage: Callable[[SmallCorpus], object], said: list[str]
) -> None:
    """No sentinel is published, an older one is withdrawn, and nothing half-written is left."""
    damage(corpus)

    with pytest.raises(CorpusRefusal) as refused:
        corpus.seal()

    for words in said:
        assert words in str(refused.value)
    left = {path.name for path in corpus.sentinel.parent.iterdir()}
    assert left <= {corpus.prepared.name}


def test_seal_refuses_when_the_recipe_is_another(corpus: SmallCorpus) -> None:
    """What was prepared must be what the configuration declares now."""
    recipe = replace(corpus.recipe, shuffle_seed=7)

    with pytest.raises(CorpusRefusal, match="recipe differs") as refused:
        corpus.seal(recipe=recipe)

    assert recipe.digest in str(refused.value)
    assert corpus.recipe.digest in str(refused.value)


def test_seal_refuses_when_the_producer_seals_its_own_work(fresh: SmallCorpus) -> None:
    """The process that wrote the shards sees what it remembers: another one must look."""
    fresh.produce()

    with pytest.raises(CorpusRefusal, match="cannot seal its own work"):
        fresh.seal(sealer=Producer.here())


def test_seal_reloads_before_it_reads_when_asked(corpus: SmallCorpus) -> None:
    """What the platform shows after a reload is what is sealed."""
    hidden = corpus.volume.with_name("hidden.npy")
    corpus.shard(2).rename(hidden)

    corpus.seal(reload=lambda _: hidden.rename(corpus.shard(2)))

    assert corpus.view().shard_tokens[layout.shard_name(2)] == 100


def test_sentinel_is_withdrawn_before_anything_is_read(corpus: SmallCorpus) -> None:
    """While a seal looks, nobody can take the older sentinel for an answer."""
    seen: list[bool] = []

    corpus.seal(reload=lambda _: seen.append(corpus.sentinel.exists()))

    assert seen == [False]


def test_programs_prepare_seal_and_refuse_when_run_as_processes(fresh: SmallCorpus) -> None:
    """The script and the command do the same from outside, with exit codes of the contract."""
    command = [sys.executable, "-m", "quantgrid", "seal", "--root", str(fresh.root)]
    command += ["--corpus", "small", "--volume", str(fresh.volume)]
    command += ["--prepared", str(fresh.prepared), "--sentinel", str(fresh.sentinel)]

    def seal() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert prepare(fresh).returncode == 0
    done = seal()
    assert (done.returncode, done.stderr) == (0, "")
    assert "sealed small: 6 shards, 585 tokens" in done.stdout
    assert fresh.view().shard(layout.shard_name(0)).size == 100
    flip(fresh.shard(0))
    refused = seal()
    assert refused.returncode == 78
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("refused: shard-00000.npy is not what was sealed; expected")
    assert not fresh.sentinel.exists()


def test_manifests_are_equal_when_volumes_differ(tmp_path: Path) -> None:
    """One recipe has one manifest digest, whatever volume it lies on."""
    one, other = (small_corpus.declare(tmp_path / name) for name in ("one", "other"))

    manifests = one.produce(), other.produce()

    assert manifests[0].volume != manifests[1].volume
    assert manifests[0].digest == manifests[1].digest
    assert Manifest.read(one.folder).digest == manifests[0].digest
