"""A view is accepted only if it equals its manifest; cutting and shuffling lose no token."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgrid import layout
from quantgrid.corpus.passes import check
from quantgrid.corpus.produce import cut
from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Recipe, Source, SourceFile, windowed
from quantlm import text
from small_corpus import SmallCorpus, sealed

Damage = tuple[Any, ...]


# -- views ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus() -> Iterator[SmallCorpus]:
    """One sealed corpus, whose files every example replaces."""
    with tempfile.TemporaryDirectory() as folder:
        yield sealed(Path(folder))


NAMES = [*map(layout.shard_name, range(8)), layout.VALIDATION_SHARD, layout.CORPUS_MANIFEST]
names, places = st.sampled_from(NAMES), st.integers(0, 2**16)


def _flip(files: dict[str, bytes], name: str, place: int, bit: int) -> None:
    data = bytearray(files.get(name, b""))
    if data:
        data[place % len(data)] ^= 1 << bit
        files[name] = bytes(data)


def _cut(files: dict[str, bytes], name: str, place: int) -> None:
    data = files.get(name, b"")
    files[name] = data[: place % (len(data) + 1)]


def _copy(files: dict[str, bytes], name: str, other: str) -> None:
    files[other] = files.get(name, b"")


def _swap(files: dict[str, bytes], name: str, other: str) -> None:
    files[name], files[other] = files.get(other, b""), files.get(name, b"")


def _append(files: dict[str, bytes], name: str, tail: bytes) -> None:
    files[name] = files.get(name, b"") + tail


def _remove(files: dict[str, bytes], name: str) -> None:
    files.pop(name, None)


damages = st.one_of(
    st.tuples(st.just(_flip), names, places, st.integers(0, 7)),
    st.tuples(st.just(_cut), names, places),
    st.tuples(st.just(_copy), names, names),
    st.tuples(st.just(_swap), names, names),
    st.tuples(st.just(_append), names, st.binary(max_size=4)),
    st.tuples(st.just(_remove), names),
)


@settings(max_examples=150, deadline=None)
@given(changes=st.lists(damages, max_size=3))
def test_view_is_accepted_only_when_equal_to_its_manifest(
    corpus: SmallCorpus, changes: list[Damage]
) -> None:
    """Whatever happens to files of a sealed corpus: all bytes are the sealed ones, or refusal."""
    original = corpus.files()
    files = dict(original)
    for change, *arguments in changes:
        change(files, *arguments)
    _replace(corpus, original, files)
    try:
        assert _accepts(corpus) == (files == original)
    finally:
        _replace(corpus, files, original)


def _replace(corpus: SmallCorpus, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    for name in old.keys() - new.keys():
        (corpus.folder / name).unlink()
    for name, data in new.items():
        (corpus.folder / name).write_bytes(data)


def _accepts(corpus: SmallCorpus) -> bool:
    try:
        view = corpus.view()
        view.validation()
        for name in view.shard_tokens:
            view.shard(name)
    except CorpusRefusal:
        return False
    return True


# -- passes ---------------------------------------------------------------------------------------


@given(planned=st.integers(0, 10**12), unique=st.integers(0, 10**9), passes=st.integers(1, 99))
def test_pass_contract_refuses_exactly_when_planned_tokens_exceed_it(
    planned: int, unique: int, passes: int
) -> None:
    """Accepted means planned <= passes x unique, and nothing else."""
    if planned <= passes * unique:
        check(planned, unique, passes, "here")
        return
    with pytest.raises(CorpusRefusal, match=f"seen {planned:,} tokens"):
        check(planned, unique, passes, "here")


# -- cutting and shuffling ------------------------------------------------------------------------


def _recipe(num_tokens: int, validation_tokens: int, shard_tokens: int) -> Recipe:
    return Recipe(
        name="x",
        files=(SourceFile("a", "0" * 64),),
        source=Source(glob="*", folder="."),
        num_tokens=num_tokens,
        validation_tokens=validation_tokens,
        shard_tokens=shard_tokens,
    )


sizes = st.integers(1, 60)


@given(num_tokens=sizes, validation=sizes, shard=sizes, data=st.data())
def test_cut_keeps_every_token_in_order_when_the_stream_comes_in_any_pieces(
    num_tokens: int, validation: int, shard: int, data: st.DataObject
) -> None:
    """Files together are the stream, of the declared sizes; a token more or less is refused."""
    recipe = _recipe(num_tokens, validation, shard)
    total = num_tokens + validation
    length = data.draw(st.integers(max(0, total - 3), total + 3))
    at = data.draw(st.lists(st.integers(0, length)).map(sorted))
    stream = np.split(np.arange(length, dtype=np.uint16), at)
    if length != total:
        with pytest.raises(CorpusRefusal, match=f"expected {total} tokens.*seen {length} tokens"):
            list(cut(recipe, stream))
        return
    files = [np.concatenate(pieces) for _, pieces in cut(recipe, stream)]

    assert np.array_equal(np.concatenate(files), np.arange(total))
    assert [len(tokens) for tokens in files] == [validation, *recipe.shard_sizes]
    assert len(files) == 1 + recipe.num_shards


@given(num_tokens=st.integers(1, 500), shard=sizes, context=st.integers(1, 40))
def test_usable_tokens_are_those_of_all_shards_when_summed(
    num_tokens: int, shard: int, context: int
) -> None:
    """What is known before any I/O equals what the shards give."""
    recipe = _recipe(num_tokens, 1, shard)

    assert sum(recipe.shard_sizes) == num_tokens
    assert all(0 < size <= shard for size in recipe.shard_sizes)
    assert recipe.usable_tokens(context) == sum(windowed(n, context) for n in recipe.shard_sizes)


texts = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.sampled_from([b"\n", b"to be", b"\xff", b"or\n"]), max_size=30).map(b"".join),
)


@given(texts=texts, document_bytes=st.integers(1, 20), seed=st.integers(0, 3))
def test_documents_are_the_texts_when_put_back_in_place(
    texts: dict[str, bytes], document_bytes: int, seed: int
) -> None:
    """Shuffling moves whole documents: all of a text are in the stream, each once."""
    order = text.order(texts, document_bytes, seed)
    stream = text.stream(texts, document_bytes=document_bytes, shuffle_seed=seed)

    for name, body in texts.items():
        pieces = sorted((start, stop) for each, start, stop in order if each == name)
        assert b"".join(body[start:stop] for start, stop in pieces) == body
    shuffled = b"".join(texts[name][start:stop] for name, start, stop in order)
    assert b"".join(bytes(tokens.astype(np.uint8)) for tokens in stream) == shuffled


@given(texts=texts, document_bytes=st.integers(1, 20))
def test_documents_are_long_and_end_with_a_line_when_cut(
    texts: dict[str, bytes], document_bytes: int
) -> None:
    """Only the last document of a text may end within a line, and only a lone one is short."""
    for name, body in texts.items():
        found = list(text.documents(name, body, document_bytes))
        assert all(body[stop - 1 : stop] == b"\n" for _, _, stop in found[:-1])
        assert len(found) < 2 or all(stop - start >= document_bytes for _, start, stop in found)
