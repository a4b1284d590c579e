"""`quantgrid corpus` pins what is there and shows what is known."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from quantgrid import layout
from quantgrid.entry import code_of
from quantgrid.load import load_corpus
from quantgrid.main import dispatch
from small_corpus import SmallCorpus, declare, flip


@pytest.fixture
def pinned(root: Path, fresh: SmallCorpus) -> SmallCorpus:
    """A declared corpus in a working copy that has settings, too."""
    for folder in (layout.SCHEMAS, layout.SECTIONS["grid"], layout.SECTIONS["platform"]):
        shutil.copytree(root / folder, fresh.root / folder, dirs_exist_ok=True)
    shutil.copy(root / layout.CONFIG, fresh.root / layout.CONFIG)
    return fresh


def _show(corpus: SmallCorpus, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert dispatch(["corpus", "show", "small", "--root", str(corpus.root), "--json"]) == 0
    facts: dict[str, object] = json.loads(capsys.readouterr().out)
    return facts


def test_pin_changes_nothing_when_texts_are_the_pinned_ones(
    fresh: SmallCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pinning twice is pinning once."""
    config = layout.section_file(fresh.root, "corpus", "small")
    pins = layout.pins_file(fresh.root, "small")
    before = config.read_bytes(), pins.read_bytes()

    assert dispatch(["corpus", "pin", "small", "--root", str(fresh.root)]) == 0

    assert (config.read_bytes(), pins.read_bytes()) == before
    assert "num_tokens        585" in capsys.readouterr().out


def test_pin_makes_a_corpus_of_any_texts_when_only_a_glob_is_given(tmp_path: Path) -> None:
    """A new user writes where the texts are; the command pins and counts, the producer agrees."""
    corpus = declare(tmp_path)
    config = layout.section_file(tmp_path, "corpus", "small")
    (tmp_path / "texts" / "small" / "more.txt").write_text("more\n" * 20)
    kept = yaml.safe_load(config.read_text())
    del kept["num_tokens"]
    config.write_text("# my texts\n" + yaml.safe_dump(kept))
    layout.pins_file(tmp_path, "small").unlink()

    assert dispatch(["corpus", "pin", "small", "--root", str(tmp_path)]) == 0

    recipe = load_corpus(tmp_path, "small")
    assert (recipe.num_tokens, len(recipe.files)) == (685, 3)
    assert recipe.digest != corpus.recipe.digest
    assert config.read_text().startswith("# my texts\n")


def test_pin_refuses_when_nothing_would_be_left_to_train_on(
    fresh: SmallCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation tokens beyond the texts are refused before a pin is written."""
    config = layout.section_file(fresh.root, "corpus", "small")
    config.write_text(config.read_text().replace("tokens: 65", "tokens: 650"))
    pins = layout.pins_file(fresh.root, "small")
    pins.unlink()

    assert code_of(lambda: dispatch(["corpus", "pin", "small", "--root", str(fresh.root)])) == 78

    assert "expected fewer than 650 validation tokens; seen 650" in capsys.readouterr().err
    assert not pins.exists()


def test_pin_lists_the_corpora_when_one_is_misspelt(
    fresh: SmallCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the name that is wrong, and not the working copy."""
    assert code_of(lambda: dispatch(["corpus", "pin", "smal", "--root", str(fresh.root)])) == 78

    assert "'smal' is no corpus, did you mean 'small'?" in capsys.readouterr().err


def test_show_says_whether_a_corpus_is_sealed_here(
    pinned: SmallCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not made, made and sealed, and damaged: each time what a consumer would be told."""
    fp = pinned.recipe.digest
    sentinel = pinned.root / layout.SENTINEL.format(corpus="small", fp=fp)
    assert _show(pinned, capsys)["sealed"] is None
    pinned.produce()
    pinned.seal()
    sentinel.parent.mkdir(parents=True)
    shutil.copy(pinned.sentinel, sentinel)

    facts = _show(pinned, capsys)
    assert facts["sealed"] == json.loads(sentinel.read_text())["at"]
    assert (facts["recipe"], facts["num_tokens"], facts["num_shards"]) == (fp, 585, 6)
    pinned.shard(3).unlink()
    facts = _show(pinned, capsys)
    assert facts["sealed"] is None
    assert "missing shard-00003.npy" in str(facts["why_not"])


def test_show_reads_no_shard_when_asked(
    pinned: SmallCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Showing compares names and sizes only: it stays fast, and consumers hash anyway."""
    pinned.produce()
    pinned.seal()
    sentinel = pinned.root / layout.SENTINEL.format(corpus="small", fp=pinned.recipe.digest)
    sentinel.parent.mkdir(parents=True)
    shutil.copy(pinned.sentinel, sentinel)
    flip(pinned.shard(0))

    assert _show(pinned, capsys)["sealed"] is not None
