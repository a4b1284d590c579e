"""One sealed corpus per test, copied from one that is made once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import small_corpus
from small_corpus import SmallCorpus


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> SmallCorpus:
    """A sealed corpus that no test may touch."""
    return small_corpus.sealed(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def corpus(pristine: SmallCorpus, tmp_path: Path) -> SmallCorpus:
    """A sealed corpus to damage."""
    root = tmp_path / "corpus"
    shutil.copytree(pristine.root, root)
    places = {
        name: root / getattr(pristine, name).relative_to(pristine.root)
        for name in ("volume", "prepared", "sentinel")
    }
    return replace(pristine, root=root, **places)


@pytest.fixture
def fresh(tmp_path: Path) -> SmallCorpus:
    """A corpus that is declared and not yet produced."""
    return small_corpus.declare(tmp_path / "fresh")
