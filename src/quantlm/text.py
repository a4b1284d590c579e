"""Text to documents to one stream of tokens: a pure function of texts and a seed.

The order of documents comes from sha256 and not from a random generator: it is the same for every
version of every library, in any language.
"""

import hashlib
from array import array
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

Encode = Callable[[Sequence[bytes]], Tokens]
"""Documents to their tokens, one after the other."""
Ends = NDArray[np.int64]
"""Where each document of a text ends, in bytes."""


class Document(NamedTuple):
    """A piece of a text: bytes `start` to `stop` of the text `name`."""

    name: str
    start: int
    stop: int


def stream(
    texts: Mapping[str, Text],
    *,
    document_bytes: int,
    shuffle_seed: int,
    encode: Encode | None = None,
    ends: Mapping[str, Ends] | None = None,
) -> Iterator[Tokens]:
    """All tokens of all texts, documents in shuffled order, one array for many documents.

    Args:
        texts: The texts by name.
        document_bytes: How texts without `ends` are cut.
        shuffle_seed: Decides the order.
        encode: How documents become tokens; one token a byte by default.
        ends: Where the documents of a text end, for texts that say so.
    """
    encode = encode or encode_bytes
    pieces = pieces_of(texts, document_bytes=document_bytes, shuffle_seed=shuffle_seed, ends=ends)
    while batch := list(islice(pieces, BATCH)):
        yield encode(batch)


def pieces_of(
    texts: Mapping[str, Text],
    *,
    document_bytes: int,
    shuffle_seed: int,
    ends: Mapping[str, Ends] | None = None,
) -> Iterator[bytes]:
    """The bytes of all documents in shuffled order; the arguments are those of `stream`."""
    shuffled = _shuffled(texts, document_bytes, shuffle_seed, ends or {})
    return (texts[name][start:stop] for name, start, stop in shuffled)


def order(
    texts: Mapping[str, Text],
    document_bytes: int,
    shuffle_seed: int,
    ends: Mapping[str, Ends] | None = None,
) -> list[Document]:
    """Documents of all texts, sorted by sha256 of seed, name and place in the text."""
    return list(_shuffled(texts, document_bytes, shuffle_seed, ends or {}))


def _shuffled(
    texts: Mapping[str, Text], document_bytes: int, shuffle_seed: int, ends: Mapping[str, Ends]
) -> Iterator[Document]:
    """The documents in order; columns of numbers, for ten million of them fit into memory so."""
    names, digests = sorted(texts), bytearray()
    columns = array("I"), array("q"), array("q")
    for number, name in enumerate(names):
        found = _given(name, ends[name]) if name in ends else None
        for index, (_, *place) in enumerate(found or documents(name, texts[name], document_bytes)):
            digests += hashlib.sha256(f"{shuffle_seed}\0{name}\0{index}".encode()).digest()
            for column, value in zip(columns, (number, *place), strict=True):
                column.append(value)
    for at in np.argsort(np.frombuffer(digests, "S32"), kind="stable"):
        number, start, stop = (column[at] for column in columns)
        yield Document(names[number], start, stop)


def _given(name: str, ends: Ends) -> Iterator[Document]:
    """The documents of a text that says where they end."""
    start = 0
    for stop in ends.tolist():
        yield Document(name, start, stop)
        start = stop


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
