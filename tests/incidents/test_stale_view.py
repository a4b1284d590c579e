"""A training job that saw one shard of many, and trained on it for a day.

Incident: a job on a rented machine mounted a volume whose view was stale: one shard of the corpus
was visible.  The loader globbed what it saw, and went thirty times over it.  Training loss fell,
validation loss rose, and nobody was told.

Guard: `quantgrid.corpus.view.look` compares what is seen with what a seal in another process
vouches for, `quantgrid.corpus.passes.check` refuses to read anything more often than declared.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid import atomic, layout
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import SENTINEL_SCHEMA, Statement
from quantgrid.errors import CorpusRefusal
from small_corpus import SmallCorpus, sealed


@pytest.fixture
def stale(tmp_path: Path) -> SmallCorpus:
    """A sealed corpus of which this machine sees the records and one shard."""
    corpus = sealed(tmp_path)
    for index in range(1, 6):
        corpus.shard(index).unlink()
    return corpus


def test_stale_view_is_refused_when_one_shard_of_many_is_seen(stale: SmallCorpus) -> None:
    """The consumer stops before its first token and says how much is missing."""
    with pytest.raises(CorpusRefusal) as refused:
        stale.view(planned_tokens=96)

    message = str(refused.value)
    assert refused.value.exit_code == 78
    assert "expected 7 files; seen 2 files" in message
    assert "missing shard-00001.npy, shard-00002.npy" in message
    assert "snakemake --profile local corpus --forcerun prepare" in message


def test_stale_view_is_refused_when_its_manifest_agrees_with_it(stale: SmallCorpus) -> None:
    """A folder that is whole in itself, but smaller than what was sealed, is refused as well."""
    _publish_smaller_manifest(stale)

    with pytest.raises(CorpusRefusal, match=r"expected num_shards 6.*seen num_shards 1"):
        stale.view(planned_tokens=96)


def test_many_passes_are_refused_when_everything_else_agrees(stale: SmallCorpus) -> None:
    """With a sentinel of the one shard, too, thirty passes where one was declared do not start."""
    manifest = _publish_smaller_manifest(stale)
    said = Statement.of(manifest, Producer.here(), "2026-11-30T12:00:00Z")
    said.publish(stale.sentinel, SENTINEL_SCHEMA)

    with pytest.raises(CorpusRefusal, match=r"seen 2,880 tokens \(30\.00 passes\)"):
        stale.view(planned_tokens=30 * 96)

    view = stale.view(planned_tokens=96)
    view.charge(layout.shard_name(0), 96)
    with pytest.raises(CorpusRefusal, match="more tokens than the declared passes hold"):
        view.charge(layout.shard_name(0), 16)


def _publish_smaller_manifest(corpus: SmallCorpus) -> Manifest:
    """Make plan and manifest those of the one shard that is there."""
    found = Manifest.read(corpus.folder)
    manifest = replace(found, shards=found.shards[:1])
    corpus.set_plan(num_shards=1, num_tokens=100)
    atomic.publish_json(corpus.folder / layout.CORPUS_MANIFEST, manifest.to_json())
    return manifest
