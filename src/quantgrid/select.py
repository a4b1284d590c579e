"""The language that chooses a part of a grid: `bits<=3 and method=gptq`.

    choice      = all-of { "or" all-of }
    all-of      = one { "and" one }
    one         = "not" one | "(" choice ")" | name test
    test        = op value | "in" "(" value { "," value } ")"
    op          = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="

Numbers may carry k or M.  A cell without a property (`none` has no bits) fails every comparison
with it but `!=`.  Ternary weights have 1.58 bits.  Nothing is evaluated as Python.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from quantgrid.errors import ConfigRefusal
from quantgrid.forms import METHODS, TERNARY, TERNARY_BITS
from quantgrid.own_script import OwnCell
from quantgrid.spec import Cell
from quantgrid.wording import counted, meant

AnyCell = Cell | OwnCell
Value = str | float | None
Test = Callable[[AnyCell], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """A parsed choice of cells.

    Args:
        text: What was written.
        names: The properties that it looks at.
        matches: Whether a cell is chosen.
    """

    text: str
    names: tuple[str, ...]
    matches: Test


def look(cell: AnyCell, name: str) -> Value:
    """A property of a cell; None when it has none of that name."""
    if isinstance(cell, OwnCell):
        return cell.find(name)
    return NAMES[name](cell) if name in NAMES else None


def _bits(cell: Cell) -> float | None:
    bits = cell.form.bits
    return TERNARY_BITS if bits == TERNARY else None if bits is None else float(bits)


def _asymmetric(cell: Cell) -> str | None:
    return None if cell.form.bits is None else str(cell.form.asymmetric).lower()


NAMES: dict[str, Callable[[Cell], Value]] = {
    "cell": lambda cell: cell.id,
    "base": lambda cell: cell.base,
    "variant": lambda cell: cell.variant,
    "model": lambda cell: cell.trunk.model.name,
    "tokens": lambda cell: cell.num_tokens,
    "budget": lambda cell: cell.budget,
    "seed": lambda cell: cell.trunk.seed,
    "method": lambda cell: cell.form.method,
    "bits": _bits,
    "group": lambda cell: cell.form.group,
    "scale": lambda cell: cell.form.scale,
    "asymmetric": _asymmetric,
    "block": lambda cell: cell.block,
    "start": lambda cell: cell.form.start if METHODS[cell.form.method].trains else None,
    "passes": lambda cell: cell.trunk.passes,
}

_NUMBERS = frozenset({"tokens", "seed", "bits", "group", "passes"})
"""Properties that can be compared by size."""

_WORDS = {"group": ("tensor", "row"), "bits": (TERNARY,)}
"""Words beside numbers, so that a misspelt number is not a word in silence."""


def parse(text: str, cells: Iterable[AnyCell] = ()) -> Selection:
    """Read a choice; an empty text chooses everything.

    Args:
        text: The choice.
        cells: Cells whose own axes are names too.

    Raises:
        ConfigRefusal: for an unknown name or a sentence that cannot be read; shows the place.
    """
    if not text.strip():
        return Selection(text, (), lambda cell: True)  # noqa: ARG005 - every cell
    if text.count("(") + text.count("not") > _MOST_NESTED:
        raise ConfigRefusal(
            "a select cannot be read",
            expected=f"at most {_MOST_NESTED} brackets and `not`",
            seen=f"{len(text)} letters",
        )
    parser = _Parser(text, _axes(cells))
    matches = parser.choice()
    parser.expect("end")
    return Selection(text, tuple(dict.fromkeys(parser.names)), matches)


def _axes(cells: Iterable[AnyCell]) -> dict[str, list[Value]]:
    """The values of each axis that is not among `NAMES`, or is an axis all the same."""
    found: dict[str, list[Value]] = {}
    for cell in cells:
        for name in cell.axes if isinstance(cell, OwnCell) else ():
            found.setdefault(name, []).append(look(cell, name))
    return found


def choose(cells: Iterable[AnyCell], text: str) -> tuple[AnyCell, ...]:
    """The chosen cells, in their order.

    Raises:
        ConfigRefusal: when nothing is chosen; tells which values there are.
    """
    cells = tuple(cells)
    selection = parse(text, cells)
    chosen = tuple(cell for cell in cells if selection.matches(cell))
    if not chosen and cells:
        there = "; ".join(f"{name}: {_values(cells, name)}" for name in selection.names)
        raise ConfigRefusal(
            f"select {text!r} matches none of {counted(len(cells), 'cell')}", seen=there
        )
    return chosen


def _values(cells: Iterable[AnyCell], name: str, most: int = 12) -> str:
    seen = list(dict.fromkeys(_shown(look(cell, name)) for cell in cells))
    return ", ".join(seen[:most]) + (f" and {len(seen) - most} more" if len(seen) > most else "")


def _shown(value: Value) -> str:
    return "nothing" if value is None else str(value)


# -- reading --------------------------------------------------------------------------------------

_MOST_NESTED = 200
_TOKEN = re.compile(
    r"\s*(?:(?P<op><=|>=|!=|==|=|<|>)|(?P<mark>[(),])|(?P<quoted>'[^']*'|\"[^\"]*\")"
    r"|(?P<word>[\w.+/-]+)|(?P<end>$))"
)
_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)([kM]?)")
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}
_KEYWORDS = ("and", "or", "not", "in")
_BY_SIZE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


class _Parser:
    """Recursive descent over the grammar of the module's docstring."""

    def __init__(self, text: str, axes: Mapping[str, Sequence[Value]]) -> None:
        self._text, self._tokens = text, list(_tokens(text))
        self.names: list[str] = []
        self._known = (*NAMES, *(axis for axis in axes if axis not in NAMES))
        numeric = {axis for axis, there in axes.items() if any(map(_is_number, there))}
        self._numbers = _NUMBERS | numeric
        self._words = {
            **_WORDS,
            **{axis: [v for v in there if isinstance(v, str)] for axis, there in axes.items()},
        }

    @property
    def _next(self) -> _Token:
        return self._tokens[0]

    def choice(self) -> Test:
        """One or more alternatives."""
        tests = [self._all_of()]
        while self._takes("or"):
            tests.append(self._all_of())
        return tests[0] if len(tests) == 1 else lambda cell: any(test(cell) for test in tests)

    def _all_of(self) -> Test:
        tests = [self._one()]
        while self._takes("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda cell: all(test(cell) for test in tests)

    def _one(self) -> Test:
        if self._takes("not"):
            test = self._one()
            return lambda cell: not test(cell)
        if self._takes("("):
            inside = self.choice()
            self.expect(")")
            return inside
        return self._comparison()

    def _comparison(self) -> Test:
        token = self.expect("word")
        if token.text not in self._known:
            what = f"{token.text!r} is no name{meant(token.text, self._known)}"
            raise self._refusal(what, token, ", ".join(self._known))
        self.names.append(token.text)
        if self._takes("in"):
            return self._membership(token.text)
        return self._test(token.text, self.expect("op"))

    def _test(self, name: str, op: _Token) -> Test:
        get, value = partial(look, name=name), self._value(name)
        if op.text in ("=", "=="):
            return lambda cell: get(cell) == value
        if op.text == "!=":
            return lambda cell: get(cell) != value
        if name not in self._numbers or isinstance(value, str):
            raise self._refusal(f"{name} {op.text} {value} compares no numbers", op, "= != or in")
        return _by_size(_BY_SIZE[op.text], get, value)

    def _membership(self, name: str) -> Test:
        get, values = partial(look, name=name), set()
        self.expect("(")
        values.add(self._value(name))
        while self._takes(","):
            values.add(self._value(name))
        self.expect(")")
        return lambda cell: get(cell) in values

    def _value(self, name: str) -> str | float:
        token = self._tokens.pop(0)
        if token.kind not in ("word", "quoted") or token.text in _KEYWORDS:
            raise self._refusal(f"{name} lacks a value here", token, "a number or a word")
        number = _NUMBER.fullmatch(token.text) if name in self._numbers else None
        if number:
            return float(number[1]) * _SCALES[number[2]]
        words = self._words.get(name, ())
        if name in self._numbers and token.text not in words:
            raise self._refusal(
                f"{token.text!r} is no value of {name}", token, " or ".join(("a number", *words))
            )
        return TERNARY_BITS if token.text == TERNARY and name == "bits" else token.text

    def expect(self, what: str) -> _Token:
        """Take the next token, which must be of this kind or be this text."""
        token = self._tokens.pop(0)
        if what not in (token.kind, token.text) or (what == "word" and token.text in _KEYWORDS):
            wrong = f"{token.text!r} is out of place" if token.text else "something is missing here"
            raise self._refusal(wrong, token, _EXPECTED.get(what, repr(what)))
        return token

    def _takes(self, text: str) -> bool:
        found = self._next.text == text and self._next.kind in ("word", "mark")
        if found:
            self._tokens.pop(0)
        return found

    def _refusal(self, what: str, token: _Token, expected: str) -> ConfigRefusal:
        return _refusal(self._text, what, token.start, expected)


_EXPECTED = {
    "end": "and, or, or the end",
    "word": f"a comparison with one of {', '.join(NAMES)}",
    "op": "one of = != < <= > >= in",
}


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float)


def _by_size(
    compare: Callable[[float, float], bool], get: Callable[[AnyCell], Value], limit: float
) -> Test:
    def test(cell: AnyCell) -> bool:
        value = get(cell)
        return value is not None and not isinstance(value, str) and compare(value, limit)

    return test


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while True:
        match = _TOKEN.match(text, place)
        if match is None:
            place = len(text) - len(text[place:].lstrip())
            raise _refusal(
                text, f"{text[place]!r} cannot be read", place, "names, values, = < > ( )"
            )
        kind = str(match.lastgroup)
        yield _Token(
            kind, match[kind].strip("'\"") if kind == "quoted" else match[kind], match.start(kind)
        )
        if kind == "end":
            return
        place = match.end()


def _refusal(text: str, what: str, place: int, expected: str) -> ConfigRefusal:
    picture = f"select: {text}\n        {' ' * place}^"
    return ConfigRefusal(what, expected=expected, do=f"\n{picture}")
