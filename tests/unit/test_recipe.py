"""A recipe is what decides the tokens of a corpus, known before any I/O."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.load import check_schema, load_corpus
from quantgrid.load import names as names_of
from quantgrid.recipe import Recipe, Source, SourceFile, windowed

ONE, TWO = "1" * 64, "2" * 64
PINS = f"{TWO}  b.txt\n{ONE} *a.txt\n"
UNSEEN = "openwebtext"
MAPPING: dict[str, Any] = {"source": {"folder": "texts", "glob": "*.txt"}, "num_tokens": 250}


BPE = {"tokeniser": "bpe", "vocab_size": 300, "vocabulary": f"{ONE}  small.tokeniser.json"}


def _recipe(pins: str = PINS, vocabulary: str = "", **changes: Any) -> Recipe:
    return Recipe.from_mapping(MAPPING | changes, pins, "small", vocabulary)


@pytest.mark.parametrize(
    "changes",
    [{"vocabulary": f"{TWO}  small.tokeniser.json"}, {"vocab_size": 301}, {"end_token": "<|end|>"}],
)
def test_digest_changes_when_the_vocabulary_does(changes: dict[str, Any]) -> None:
    """The digest of the vocabulary's file, its size and the end of a document decide tokens."""
    assert _recipe(**BPE | changes).digest != _recipe(**BPE).digest


def test_digest_holds_the_length_only_when_the_rest_is_left() -> None:
    """A declared total decides nothing, unless it says where the corpus is cut off."""
    part = {"surplus": "leave"}

    assert _recipe(**part, num_tokens=9).digest != _recipe(**part, num_tokens=8).digest
    assert _recipe(documents=9, num_tokens=9).digest == _recipe(num_tokens=8).digest


def test_vocabulary_is_that_of_the_tokeniser_when_none_is_chosen() -> None:
    """Bytes are 256, GPT-2 has 50,257, and only a trained vocabulary has a choice."""
    given = {"tokeniser": "gpt2", "tokeniser_folder": "x", "vocabulary": f"{ONE}  vocab.json"}

    assert [_recipe(**each).vocabulary for each in ({}, BPE, given)] == [256, 300, 50_257]


def test_recipe_is_resolved_when_little_is_said() -> None:
    """Files come in the order of their names; options that are not given have their defaults."""
    recipe = _recipe()

    assert recipe.files == (SourceFile("a.txt", ONE), SourceFile("b.txt", TWO))
    assert recipe.source == Source(glob="*.txt", folder="texts")
    assert (recipe.tokeniser, recipe.document_bytes, recipe.shard_tokens) == (
        "bytes",
        1024,
        100_000,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"module": "m", "package": "p==1", "glob": "t/*"}},
        {"num_tokens": 251},
        {"tokeniser": "bytes"},
        {"document_bytes": 1024, "shuffle_seed": 0},
        {"validation_tokens": 98_304, "shard_tokens": 100_000},
    ],
)
def test_digest_stays_when_only_words_change(changes: dict[str, Any]) -> None:
    """Where texts are, declared totals and defaults spelled out decide no token."""
    assert _recipe(**changes).digest == _recipe().digest


@pytest.mark.parametrize(
    "changes",
    [
        {"pins": f"{ONE}  a.txt\n{ONE}  b.txt\n"},
        {"pins": f"{ONE}  a.txt\n"},
        {"pins": f"{ONE}  a.txt\n{TWO}  c.txt\n"},
        {"document_bytes": 1023},
        {"shuffle_seed": 1},
        {"validation_tokens": 98_303},
        {"shard_tokens": 99_999},
        {"surplus": "leave"},
        {"text_field": "content"},
        BPE,
    ],
)
def test_digest_changes_when_tokens_would(changes: dict[str, Any]) -> None:
    """Each text, each name and each option decides."""
    assert _recipe(**changes).digest != _recipe().digest


def test_digest_is_blind_when_lines_or_comments_of_pins_move() -> None:
    """The order of lines, blank lines and comments mean nothing."""
    assert _recipe(pins=f"# two\n\n{ONE}  a.txt\n{TWO}  b.txt\n").digest == _recipe().digest


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pins": ""}, "no text of this corpus is pinned"),
        ({"pins": f"{ONE}  a\n{TWO}  a\n"}, "pinned twice: a"),
        ({"pins": "abc  a.txt"}, "a pin cannot be read; expected <64 hex digits>  <name>"),
        ({"pins": f"\\{ONE}  a\\\\b"}, "a pin cannot be read"),
        ({"pins": f"{ONE}  a\n{'0' * 64}  b"}, "not pinned yet; expected the sha256 of every text"),
        ({"source": {"glob": "*"}}, "seen glob"),
        ({"source": {"glob": "*", "folder": "a", "module": "b"}}, "one folder or one module"),
        ({"source": {"folder": "a"}}, "seen folder"),
        ({"source": {"glob": "*", "folder": "a", "url": "b"}}, "unknown key url"),
        ({"tokenizer": "bytes"}, "unknown key tokenizer; expected document_bytes, documents"),
        ({"files": []}, "unknown key files"),
        ({"tokeniser": "wordpiece"}, "unknown tokeniser; expected bytes or bpe or gpt2; seen"),
        ({"surplus": "drop"}, "unknown surplus; expected refuse or leave; seen drop"),
        ({"tokeniser": "bpe"}, "expected end_token, vocab_size; seen none"),
        ({"vocab_size": 300}, "tokeniser bytes and its options do not go together"),
        ({"tokeniser": "bpe", "vocab_size": 65_537}, "257 to 65,536 tokens"),
        ({"tokeniser": "gpt2", "tokeniser_folder": "x", "vocab_size": 300}, "seen tokeniser_fold"),
        ({"tokeniser": "bpe", "vocab_size": 300}, "no text of this corpus is pinned"),
        ({"source": {"glob": "*", "dataset": "a/b"}}, "not named by a commit"),
        ({"source": {"glob": "*", "dataset": "a/b", "revision": "main"}}, "seen main"),
        ({"num_tokens": 0}, "num_tokens is a whole number of at least 1; seen 0"),
        ({"shard_tokens": 1.5}, "shard_tokens is a whole number of at least 1; seen 1.5"),
        ({"shuffle_seed": -1}, "shuffle_seed is a whole number of at least 0; seen -1"),
        ({"document_bytes": True}, "document_bytes is a whole number"),
    ],
)
def test_recipe_is_refused_when_it_cannot_be_meant(changes: dict[str, Any], said: str) -> None:
    """The message says what was expected and seen, and which corpus it is about."""
    with pytest.raises(ConfigRefusal) as refused:
        _recipe(**changes)

    assert said in str(refused.value)
    assert "corpus small" in str(refused.value)


@pytest.mark.parametrize("missing", ["source", "num_tokens"])
def test_recipe_is_refused_when_something_is_missing(missing: str) -> None:
    """A corpus without texts or declared tokens is no corpus."""
    mapping = {key: value for key, value in MAPPING.items() if key != missing}

    with pytest.raises(ConfigRefusal, match=missing):
        Recipe.from_mapping(mapping, PINS, "small")


def test_windows_need_their_last_target_when_counted() -> None:
    """A window of 64 tokens needs the 65th: 64 tokens hold no window, 129 hold two."""
    assert [windowed(n, 64) for n in (0, 1, 64, 65, 128, 129)] == [0, 0, 0, 64, 64, 128]


def test_every_corpus_of_the_repository_loads(root: Path) -> None:
    """Each file of config/corpora fits its schema and its pins, but for the one without pins."""
    assert {"shakespeare", UNSEEN} < set(names_of(root, "corpus"))
    for name in set(names_of(root, "corpus")) - {UNSEEN}:
        assert load_corpus(root, name).num_shards > 0


def test_openwebtext_waits_for_its_pins_and_declares_its_totals(root: Path, tmp_path: Path) -> None:
    """It is refused before a byte is brought; with pins it is nanoGPT's documents and tokens."""
    with pytest.raises(ConfigRefusal, match=r"not pinned yet.*zeros instead of 1 of 1.*corpus pin"):
        load_corpus(root, UNSEEN)

    shutil.copytree(root / "config", tmp_path / "config")
    layout.pins_file(tmp_path, UNSEEN).write_text(PINS)
    recipe = load_corpus(tmp_path, UNSEEN)
    assert (recipe.documents, recipe.num_tokens) == (8_013_769, 9_035_582_198)
    assert (recipe.validation_tokens, recipe.vocabulary) == (4_434_897, 50_257)


def test_default_corpus_is_the_pinned_one(root: Path) -> None:
    """The digest in every fingerprint of the demo changes only by decision."""
    recipe = load_corpus(root, "shakespeare")

    assert (len(recipe.files), recipe.num_shards, recipe.num_tokens) == (42, 50, 4_958_894)
    assert recipe.usable_tokens(64) == 4_957_312
    assert recipe.digest == "568ef6066048aa5827908a0a254ef80a43aff5e5858910f9c7d290346551b220"


@pytest.mark.parametrize(
    "planted",
    [{"colour": 1}, {"num_tokens": "many"}, {"tokeniser": "words"}, {"source": {"glob": "*"}}],
)
def test_schema_refuses_when_a_key_or_type_is_wrong(root: Path, planted: dict[str, Any]) -> None:
    """The schema of a corpus knows each key and its type."""
    schema = str(layout.schema_file(root, "corpus"))
    check_schema(MAPPING, schema)

    with pytest.raises(Exception, match=r".") as refused:
        check_schema(MAPPING | planted, schema)

    assert type(refused.value).__name__ == "ValidationError"


def test_recipe_and_passes_load_nothing_heavy_when_imported() -> None:
    """Snakemake reads recipes in every job: no numpy, no yaml."""
    code = (
        "import sys, json, quantgrid.recipe, quantgrid.corpus.passes;"
        "print(json.dumps([m for m in ('numpy', 'yaml', 'torch', 'pandas') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert json.loads(done.stdout) == []
