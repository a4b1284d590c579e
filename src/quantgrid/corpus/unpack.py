"""Texts out of the files that hold them: compressed ones, and documents in the rows of tables.

The end of a file's name says what it is: `.gz` and `.dz` (dictzip) are decompressed; `.jsonl` has a
JSON object in every line, `.parquet` and `.arrow` (what `datasets` saves) a table, each with its
document in one field.  Anything else is text.  What is read are the very bytes that were hashed.
"""

import gzip
import json
import mmap
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantgrid import layout
from quantgrid.corpus.sources import Text
from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Recipe

_PIECE = 1 << 20
_ROWS = 1024


class Unpacked(NamedTuple):
    """A text, and where its documents end when the file itself says so."""

    text: Text
    ends: NDArray[np.int64] | None = None


def unpacked(recipe: Recipe, texts: Mapping[str, Text], scratch: Path) -> dict[str, Unpacked]:
    """The texts of a recipe by the names of their files, ready to be cut into documents.

    Args:
        recipe: Says in which field of a row the document is, and what follows each.
        texts: The verified files.
        scratch: A folder with room for everything unpacked, in files without a name.

    Raises:
        CorpusRefusal: when a file is not what its name says, or holds no text where it should.
    """
    found = {name: _unpacked(recipe, name, text, scratch) for name, text in sorted(texts.items())}
    count = sum(len(each.ends) for each in found.values() if each.ends is not None)
    if recipe.documents not in {None, count}:
        raise CorpusRefusal(
            f"corpus {recipe.name} has another number of documents than it declares",
            expected=f"{recipe.documents:,}",
            seen=f"{count:,}",
            do="Look whether files are missing; or correct documents in the corpus's file.",
        )
    return found


def _unpacked(recipe: Recipe, name: str, text: Text, scratch: Path) -> Unpacked:
    plain = name
    if PurePosixPath(name).suffix in layout.COMPRESSED:
        plain = name[: -len(PurePosixPath(name).suffix)]
        text = _decompressed(name, text, scratch)
    rows = _ROWS_OF.get(PurePosixPath(plain).suffix)
    if rows is None:
        return Unpacked(text)
    after = b"" if recipe.end_token else b"\n"
    return _documents(name, rows(name, text, recipe.text_field), after, scratch)


def _decompressed(name: str, text: Text, scratch: Path) -> Text:
    try:
        with tempfile.TemporaryFile(dir=scratch) as file, gzip.open(_Reader(text)) as packed:
            while piece := packed.read(_PIECE):
                file.write(piece)
            return _mapped(file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusRefusal(
            f"{name} cannot be decompressed", expected="a whole gzip file", seen=error
        ) from error


def _documents(
    name: str, rows: Iterable[tuple[int, object]], after: bytes, scratch: Path
) -> Unpacked:
    ends, end = [], 0
    with tempfile.TemporaryFile(dir=scratch) as file:
        for number, document in rows:
            end += file.write(_encoded(name, number, document) + after)
            ends.append(end)
        return Unpacked(_mapped(file), np.array(ends, np.int64))


def _encoded(name: str, number: int, document: object) -> bytes:
    try:
        if isinstance(document, str):
            return document.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        pass
    raise _no_text(name, number, document)


def _json_rows(name: str, text: Text, field: str) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(_lines(text), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise CorpusRefusal(
                    f"line {number} of {name} is no JSON", seen=f"{error}: {line[:60]!r}"
                ) from error
            yield number, row.get(field) if isinstance(row, dict) else row


def _parquet_rows(name: str, text: Text, field: str) -> Iterator[tuple[int, object]]:
    parquet = _pyarrow("pyarrow.parquet")
    pyarrow = _pyarrow("pyarrow")

    def batches() -> Iterator[Any]:
        table = parquet.ParquetFile(pyarrow.BufferReader(pyarrow.py_buffer(text)))
        _require_field(name, field, table.schema_arrow.names)
        yield from table.iter_batches(batch_size=_ROWS, columns=[field])

    return _column(name, batches(), field, pyarrow.ArrowException)


def _arrow_rows(name: str, text: Text, field: str) -> Iterator[tuple[int, object]]:
    ipc = _pyarrow("pyarrow.ipc")
    pyarrow = _pyarrow("pyarrow")

    def batches() -> Iterator[Any]:
        table = ipc.open_stream(pyarrow.py_buffer(text))
        _require_field(name, field, table.schema.names)
        yield from table

    return _column(name, batches(), field, pyarrow.ArrowException)


def _column(
    name: str, batches: Iterator[Any], field: str, unreadable: type[Exception]
) -> Iterator[tuple[int, object]]:
    number = 0
    try:
        for batch in batches:
            for document in batch.column(field).to_pylist():
                number += 1
                yield number, document
    except (unreadable, OSError) as error:
        raise CorpusRefusal(f"{name} is no table that can be read", seen=error) from error


_ROWS_OF: dict[str, Callable[[str, Text, str], Iterator[tuple[int, object]]]] = {
    layout.JSON_LINES: _json_rows,
    layout.PARQUET: _parquet_rows,
    layout.ARROW: _arrow_rows,
}


SUFFIXES = frozenset(_ROWS_OF) | set(layout.COMPRESSED)
"""Ends of the names of files that are not text as they are."""


def _pyarrow(module: str) -> Any:
    from importlib import import_module  # a large package that most corpora do without

    try:
        return import_module(module)
    except ImportError as error:
        raise CorpusRefusal(
            "tables are read by pyarrow, which is not installed",
            seen=error,
            do="Install it: `pip install 'quantgrid[corpora]'`.",
        ) from error


def _require_field(name: str, field: str, names: list[str]) -> None:
    if field not in names:
        raise CorpusRefusal(
            f"the rows of {name} have no field {field}",
            expected=f"one of {', '.join(names)}",
            seen=field,
            do="Name the field with the text as text_field in the corpus's file.",
        )


def _no_text(name: str, number: int, document: object) -> CorpusRefusal:
    return CorpusRefusal(
        f"row {number} of {name} has no text",
        expected="a text in the field that text_field names",
        seen=f"{type(document).__name__} {document!r:.60}",
        do="Leave such rows out of the file, or name another field as text_field.",
    )


def _lines(text: Text) -> Iterator[bytes]:
    start = 0
    while start < len(text):
        stop = text.find(b"\n", start) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _mapped(file: IO[bytes]) -> Text:
    """What was written, mapped; the mapping outlives the file, which has no name."""
    file.flush()
    if file.tell() == 0:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class _Reader:
    """Bytes in memory as a file that gzip reads."""

    def __init__(self, text: Text) -> None:
        self._text, self._at = text, 0

    def read(self, count: int = -1) -> bytes:
        """The next bytes."""
        stop = len(self._text) if count < 0 else self._at + count
        piece = bytes(self._text[self._at : stop])
        self._at += len(piece)
        return piece

    def seek(self, at: int) -> int:
        """Go to a place."""
        self._at = at
        return at
