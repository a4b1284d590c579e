"""Subwords: byte-level BPE by `tokenizers`, trained on documents or given as GPT-2's two files."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from quantlm.text import Encode, Tokens

TRAINING_BYTES = 8_000_000
"""Of documents that a vocabulary is trained on: 2.7 CPU seconds for 4,096 tokens (QU 5)."""


def trained(documents: Iterable[bytes], vocab_size: int, *, has_end: bool) -> bytes:
    """A vocabulary of the documents, as a file of `tokenizers`; the last id is left for the end.

    Raises:
        ValueError: when the documents hold fewer different subwords, or are not UTF-8.
    """
    wanted = vocab_size - has_end
    tokeniser = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=wanted,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokeniser.train_from_iterator(map(_text, _first(documents, TRAINING_BYTES)), trainer)
    if tokeniser.get_vocab_size() != wanted:
        raise ValueError(
            f"these texts give {tokeniser.get_vocab_size()} subwords; expected {wanted}. "
            "Lower vocab_size."
        )
    return json.dumps(json.loads(tokeniser.to_str()), ensure_ascii=False, indent=1).encode()


def encoder(files: Sequence[bytes], vocab_size: int, end_token: str | None) -> Encode:
    """How documents become tokens.

    Args:
        files: One file of `tokenizers`, or GPT-2's `vocab.json` and `merges.txt`.
        vocab_size: How many tokens the vocabulary must have, an end among them.
        end_token: Follows every document: a token of the vocabulary, else its last id.

    Raises:
        ValueError: when the vocabulary has another size.
    """
    tokeniser = _opened(files)
    end = _end(tokeniser, vocab_size, end_token)

    def encode(documents: Sequence[bytes]) -> Tokens:
        found = tokeniser.encode_batch([_text(each) for each in documents])
        return np.fromiter((i for each in found for i in (*each.ids, *end)), np.uint16)

    return encode


def _end(tokeniser: Tokenizer, vocab_size: int, end_token: str | None) -> tuple[int, ...]:
    found = None if end_token is None else tokeniser.token_to_id(end_token)
    is_besides = end_token is not None and found is None
    if tokeniser.get_vocab_size() + is_besides != vocab_size:
        raise ValueError(
            f"the vocabulary has {tokeniser.get_vocab_size() + is_besides} tokens; "
            f"expected {vocab_size}"
        )
    if end_token is None:
        return ()
    return (vocab_size - 1 if found is None else found,)


def _opened(files: Sequence[bytes]) -> Tokenizer:
    if len(files) == 1:
        return Tokenizer.from_str(files[0].decode())
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("vocab.json", "merges.txt")]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        return _byte_level(models.BPE.from_file(*map(str, paths)))


def _byte_level(model: models.BPE) -> Tokenizer:
    tokeniser = Tokenizer(model)
    tokeniser.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokeniser.decoder = decoders.ByteLevel()
    return tokeniser


def _text(document: bytes) -> str:
    """The text of a document; a subword vocabulary has only UTF-8.

    Raises:
        ValueError: when it is none.
    """
    try:
        return document.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"a document is not UTF-8 ({error}): {document[:60]!r}. Use `tokeniser: bytes`."
        ) from error


def _first(documents: Iterable[bytes], num_bytes: int) -> Iterator[bytes]:
    """Documents until so many bytes were given."""
    for document in documents:
        yield document
        num_bytes -= len(document)
        if num_bytes <= 0:
            return
