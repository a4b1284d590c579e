"""A volume of which a job sees a snapshot, and not what is written to it now.

Incident: a platform mounted its volumes as they were when the machine started.  A corpus grew on
the volume meanwhile; the job saw the half of it that had been there, took it for all, and trained.

Guard: `quantgrid.corpus.view.look` compares what is seen with what the seal vouches for, and
`quantgrid.corpus.view.View.open` asks for a fresh view before it looks.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from corpus_copies import bring, names
from quantgrid.corpus.view import View
from quantgrid.errors import CorpusRefusal
from small_btrfs import Btrfs, small_btrfs
from small_corpus import CONTEXT, USABLE, declare

__all__ = ["small_btrfs"]


def test_snapshot_is_refused_until_it_is_taken_anew(small_btrfs: Btrfs, tmp_path: Path) -> None:
    """Half a corpus in the snapshot, all of it on the volume: refused; a newer snapshot opens."""
    local = declare(tmp_path / "desk")
    local.produce()
    local.seal()
    volume = small_btrfs.subvolume("volume")
    here = replace(local, volume=volume)
    bring(local, here, num_shards=2)
    there = replace(local, volume=small_btrfs.snapshot(volume, "seen"))
    half = names(there.folder)
    bring(local, here, num_shards=6)

    with pytest.raises(CorpusRefusal, match=r"expected 7 files; seen 2 files; missing shard-00002"):
        there.view()
    assert names(there.folder) == half, "the snapshot changed: it proves nothing"
    assert names(here.folder) != half

    view = View.open(
        there.folder,
        there.sentinel,
        planned_tokens=USABLE,
        context=CONTEXT,
        reload=lambda _: small_btrfs.snapshot(volume, "seen") and None,
    )
    assert view.manifest == here.view().manifest
