"""Names say what things are, in the words of the glossary."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# A word that hides what a thing does, or a second word for a thing that has one already.
BANNED = {
    "epoch": "pass",
    "epochs": "passes",
    "experiment": "cell",
    "handle": "the name of what is done",
    "helper": "the name of what it does",
    "helpers": "the name of what they do",
    "manager": "the name of what it does",
    "sweep": "grid",
    "trial": "cell",
    "util": "the name of what it does",
    "utils": "the name of what they do",
}


def offenders(name: str, text: str) -> Iterator[str]:
    """Each name that a file defines, its own included, with a banned word in it."""
    for line, defined in [(1, name), *_definitions(ast.parse(text))]:
        for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", defined).lower()):
            if word in BANNED:
                yield f"{name}:{line}: {defined} says {word}; here that is {BANNED[word]}"


def _definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id


def test_names_use_the_glossary_when_source_is_read(sources: dict[str, str]) -> None:
    """No module, class, function, argument or variable of the source has a banned word."""
    source = {name: text for name, text in sources.items() if name.startswith(("src/", "scripts/"))}

    found = [line for name, text in source.items() for line in offenders(name, text)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("src/utils.py", "x = 1"),
        ("a.py", "def run_sweep(): ..."),
        ("a.py", "class CellManager: ..."),
        ("a.py", "def f(num_epochs): ..."),
        ("a.py", "max_epoch = 3"),
    ],
)
def test_names_are_refused_when_one_has_a_banned_word(name: str, planted: str) -> None:
    """The policy sees a banned word in each kind of name."""
    assert len(list(offenders(name, planted))) == 1


def test_test_modules_have_names_of_their_own_when_listed(root: Path) -> None:
    """Without packages pytest imports a module by its name alone: two of one name are an error."""
    found = Counter(path.name for path in (root / "tests").rglob("test_*.py"))

    assert [name for name, number in found.items() if number > 1] == []
