"""A producer that dies before any of its publications is finished by the same command."""

import json
from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.corpus.manifest import Manifest
from quantgrid.errors import CorpusRefusal
from small_corpus import SmallCorpus, flip, prepare

KILLER = """
import os, sys
points = [int(os.environ["KILL_AT"])]
watched = set(os.environ["KILL_ON"].split(","))
def hook(event, arguments):
    if event in watched:
        points[0] -= 1
        if points[0] == 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(hook)
"""


def _killed_at(corpus: SmallCorpus, folder: Path, point: int, events: str) -> bool:
    """Run the script with SIGKILL right before its n-th event; False when it has fewer."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(KILLER)
    done = prepare(corpus, PYTHONPATH=str(folder), KILL_AT=str(point), KILL_ON=events)
    assert done.returncode in {0, -9}, done.stderr
    return done.returncode == -9


def _debris(corpus: SmallCorpus) -> list[Path]:
    return [path for path in corpus.root.rglob("*") if "qgpart" in path.name]


@pytest.mark.parametrize(
    ("events", "least", "step"),
    [
        ("os.rename,os.link", 12, 3),  # identity, plan, 7 shards, manifest, plan, receipt
        pytest.param("os.rename,os.link", 12, 1, marks=pytest.mark.nightly),
        pytest.param("os.rename,os.link,os.remove", 24, 1, marks=pytest.mark.nightly),
    ],
)
def test_producer_finishes_the_work_when_killed_at_any_publication(
    pristine: SmallCorpus, fresh: SmallCorpus, tmp_path: Path, events: str, least: int, step: int
) -> None:
    """Killed before publications in turn, then run again: the same bytes, and no debris.

    Always before every third one; `make nightly` before each.
    """
    expected = {name: data for name, data in pristine.files().items() if name.endswith(".npy")}
    point = 1
    while _killed_at(fresh, tmp_path / "killer", point, events):
        if not fresh.prepared.exists():
            with pytest.raises(CorpusRefusal):
                fresh.seal()
        again = prepare(fresh)
        assert (again.returncode, again.stderr) == (0, "")
        _expect(fresh, expected, pristine)
        _forget(fresh)
        point += step
    assert point > least
    _expect(fresh, expected, pristine)


def test_producer_repairs_when_killed_at_any_publication(
    pristine: SmallCorpus, corpus: SmallCorpus, tmp_path: Path
) -> None:
    """Killed anywhere in a repair, no reader takes the corpus for whole, and a rerun ends it."""
    expected = {name: data for name, data in pristine.files().items() if name.endswith(".npy")}
    corpus.seal()
    flip(corpus.shard(3))
    point = 1
    while _killed_at(corpus, tmp_path / "killer", point, "os.rename,os.link"):
        assert not _is_accepted(corpus) or corpus.files() == pristine.files()
        assert prepare(corpus).returncode == 0
        _expect(corpus, expected, pristine)
        flip(corpus.shard(3))
        point += 1
    assert point > 5  # plan, shard, manifest, plan, receipt
    _expect(corpus, expected, pristine)


def _is_accepted(corpus: SmallCorpus) -> bool:
    try:
        view = corpus.view()
        for name in view.shard_tokens:
            view.shard(name)
    except CorpusRefusal:
        return False
    return True


def _expect(corpus: SmallCorpus, expected: dict[str, bytes], pristine: SmallCorpus) -> None:
    found = corpus.files()
    assert {name: data for name, data in found.items() if name.endswith(".npy")} == expected
    assert Manifest.read(corpus.folder).digest == Manifest.read(pristine.folder).digest
    assert found.keys() == pristine.files().keys()
    assert json.loads(corpus.prepared.read_text())["num_tokens"] == 585
    assert _debris(corpus) == []
    corpus.seal()


def _forget(corpus: SmallCorpus) -> None:
    """Back to a volume without anything."""
    for path in [*corpus.folder.iterdir(), corpus.prepared, corpus.sentinel]:
        path.unlink()
    (corpus.volume / layout.VOLUME_IDENTITY).unlink()
