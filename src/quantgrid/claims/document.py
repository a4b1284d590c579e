"""A document taken apart: sentences with the cells and grids they refer to, and generated tables.

Pure; `docs/formats/claims.md` says how a document refers to something.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote

from quantgrid import layout

CELL, GRID = "cell", "grid"


class Reference(NamedTuple):
    """A cell or grid that a sentence refers to explicitly, with the facts it states beside it.

    Args:
        line: Where it stands, from 1.
        kind: `cell` or `grid`.
        name: The id of the cell or the name of the grid.
        facts: Pairs of name and value, as written.
    """

    line: int
    kind: str
    name: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its comments, where it begins, and what it refers to."""

    line: int
    text: str
    references: tuple[Reference, ...]


class Block(NamedTuple):
    """A generated table: its line, the words of its comment, and the text up to its end."""

    line: int
    words: str
    text: str


_BEGIN = re.compile(r"<!--\s*table:")
_BLOCK = re.compile(
    r"<!-- table: (?P<words>[^\n]*?) -->\n(?P<text>(?:(?!<!--\s*table:).)*?)<!-- end -->", re.DOTALL
)
_CODE = re.compile(r"`[^`\n]+`")
_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_PARAGRAPH = re.compile(r"(?:^[^\S\n]*\S[^\n]*\n?)+", re.MULTILINE)
_ITEM = re.compile(r"^(?=[^\S\n]*(?:[-*+|#]|\d+[.)])[^\S\n]?)", re.MULTILINE)
_COMMENTS = r"(?:\s*<!--.*?-->)*"
_SENTENCE = re.compile(rf".+?(?:[.!?](?=[\s<]|$){_COMMENTS}|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_EXPLICIT = re.compile(
    r"<!--\s*(?P<kind>cell|grid):\s*(?P<name>\S+?)(?P<facts>(?:\s.*?)?)-->",
    re.DOTALL | re.IGNORECASE,
)
_FACT = re.compile(r"(\w+)=(\S+)")
_LINK = re.compile(r"(?:\]\(\s*|^\s*\[[^]\n]+\]:\s*)<?([^)\s>#?]+)", re.MULTILINE)
_RESULT = re.compile(
    re.escape(layout.RESULT)
    .replace(r"\{base\}", r"(?P<base>[^/]+)")
    .replace(r"\{variant\}", r"(?P<variant>[^/]+)")
    + "$"
)
_PAGE = re.compile(rf"(?:(?<=/)|^){layout.RESULTS}/(?P<grid>[\w-]+)(?<!-laws)\.(?:csv|html)$")
_NO_GRIDS = {layout.PAGE.format(grid=name) for name in ("report", "rehearsal")}
"""The page of Snakemake's own report, and that of the rehearsal."""


def blocks(text: str) -> list[Block]:
    """The generated tables of a document, in order; one without an end is none."""
    plain = _blank(_FENCE, text)
    return [
        Block(_line(text, found.start()), found["words"], found["text"])
        for found in _BLOCK.finditer(plain)
    ]


def torn_blocks(text: str) -> list[int]:
    """The lines of comments that begin a table and have no end of their own, or no words.

    What stands between such a comment and the end of a later table is a person's text.
    """
    plain = _blank(_FENCE, text)
    whole = {found.start() for found in _BLOCK.finditer(plain)}
    starts = [found.start() for found in _BEGIN.finditer(_blank(_CODE, plain))]
    return [_line(text, start) for start in starts if start not in whole]


def rewritten(text: str, tables: dict[str, str]) -> str:
    """A document with new tables, by the words of their comments; others stay as they are."""
    plain, out, last = _blank(_FENCE, text), [], 0
    for found in _BLOCK.finditer(plain):
        if (table := tables.get(found["words"])) is not None:
            out += [text[last : found.start("text")], table]
            last = found.end("text")
    return "".join([*out, text[last:]])


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a document outside fenced code and generated tables.

    A comment after the full stop belongs to the sentence before it; each item of a list, row of a
    table and heading is on its own.
    """
    plain = _blank(_FENCE, _blank(_BLOCK, text))
    for paragraph in _parts(plain):
        for found in _SENTENCE.finditer(plain, *paragraph):
            if found[0].strip():
                yield _sentence(plain, found.start(), found[0])


def _parts(text: str) -> Iterator[tuple[int, int]]:
    for paragraph in _PARAGRAPH.finditer(text):
        starts = [
            match.start() for match in _ITEM.finditer(text, paragraph.start(), paragraph.end())
        ]
        bounds = sorted({paragraph.start(), *starts, paragraph.end()})
        yield from pairwise(bounds)


def _sentence(text: str, start: int, own: str) -> Sentence:
    lead = len(own) - len(own.lstrip())
    words = " ".join(_COMMENT.sub(" ", own).split())
    found = tuple(_references(text, start, _blank(_CODE, own)))
    return Sentence(_line(text, start + lead), words, found)


def _references(text: str, start: int, own: str) -> Iterator[Reference]:
    for match in _EXPLICIT.finditer(own):
        facts = tuple(_FACT.findall(match["facts"]))
        line, kind = _line(text, start + match.start()), match["kind"].lower()
        yield Reference(line, kind, match["name"], facts)
    for match in _LINK.finditer(own):
        line, place = _line(text, start + match.start(1)), unquote(match[1])
        if cell := _RESULT.search(place):
            yield Reference(line, CELL, f"{cell['base']}/{cell['variant']}")
        elif (page := _PAGE.search(place)) and "://" not in place and page[0] not in _NO_GRIDS:
            yield Reference(line, GRID, page["grid"])


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with what matches made blank, so that places and lines stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
