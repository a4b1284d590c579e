"""Text to documents to one stream of tokens: a pure function of texts and a seed.

The order of documents comes from sha256 and not from a random generator: it is the same for every
version of every library, in any language.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from mmap import mmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Text = bytes | mmap
Tokens = NDArray[np.uint16]
BATCH = 1024
"""Documents that are encoded at once; it changes no token."""


class Document(NamedTuple):
    """A piece of a text: bytes `start` to `stop` of the text `name`."""

    name: str
    start: int
    stop: int


def stream(
    texts: Mapping[str, Text], *, tokeniser: str, document_bytes: int, shuffle_seed: int
) -> Iterator[Tokens]:
    """All tokens of all texts, documents in shuffled order, one array for many documents."""
    encode = TOKENISERS[tokeniser]
    shuffled = order(texts, document_bytes, shuffle_seed)
    pieces = (texts[name][start:stop] for name, start, stop in shuffled)
    while batch := list(islice(pieces, BATCH)):
        yield encode(batch)


def order(texts: Mapping[str, Text], document_bytes: int, shuffle_seed: int) -> list[Document]:
    """Documents of all texts, sorted by sha256 of seed, name and place in the text."""
    keyed = [
        (hashlib.sha256(f"{shuffle_seed}\0{name}\0{index}".encode()).digest(), document)
        for name, text in sorted(texts.items())
        for index, document in enumerate(documents(name, text, document_bytes))
    ]
    return [document for _, document in sorted(keyed)]


def documents(name: str, text: Text, document_bytes: int) -> Iterator[Document]:
    """Cut a text at the first line end after every `document_bytes`; the last one may be longer."""
    start = 0
    while start < len(text):
        stop = text.find(b"\n", start + document_bytes - 1) + 1
        if stop == 0 or len(text) - stop < document_bytes:
            stop = len(text)
        yield Document(name, start, stop)
        start = stop


def encode_bytes(documents: Sequence[bytes]) -> Tokens:
    """One token a byte; 256 tokens in all."""
    return np.frombuffer(b"".join(documents), np.uint8).astype(np.uint16)


TOKENISERS: dict[str, Callable[[Sequence[bytes]], Tokens]] = {"bytes": encode_bytes}
