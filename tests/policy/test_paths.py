"""Only layout spells a path: every other module of the plumbing asks it for one."""

import ast
import re
from collections.abc import Iterator

import pytest

# Modules that may spell paths, each with its reason.
EXEMPT = {
    "src/quantgrid/layout/": "it is the one place",
    "src/quantgrid/oom.py": "its paths are the kernel's",
    "src/quantgrid/contract.py": "its examples are shown to people and opened by nobody",
}

FOLDERS = "archive|blobs|config|docs|logs|plan|profiles|receipts|results|rules|scripts|src|work"
LOOKS_LIKE_PATH = re.compile(
    rf"(?:{FOLDERS})(?:/\S*)"  # below a folder of ours
    r"|\S*\.(?:csv|html|json|jsonl|log|lock|npy|pt|safetensors|smk|svg|yaml|yml)"  # a file name
)
TAKE_PATHS = {"Path", "PurePath", "PurePosixPath", "joinpath", "with_name", "open", "glob", "rglob"}


def offenders(name: str, text: str) -> Iterator[str]:
    """Each path that a module spells as a literal.

    Seen: `folder / "name"`, a literal handed to Path, joinpath, open and their like, and any other
    string without blanks that names a folder or a kind of file of ours.  Sentences for people
    (strings with blanks, docstrings, `help=`) are no paths.
    """
    tree = _without_help(ast.parse(text))
    lines = {
        node.lineno: node.value for node in ast.walk(tree) if _is_text(node) and _spells(node.value)
    }
    for node in ast.walk(tree):
        lines |= {each.lineno: each.value for each in _operands(node) if _is_text(each)}
    for line, value in sorted(lines.items()):
        yield f"{name}:{line}: {value!r} belongs into layout"


def _without_help(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg not in {"help", "metavar"}]
    return tree


def _is_text(node: ast.AST) -> bool:
    """Whether a node is a string that could be a path of ours.

    `__init__.py` is Python's own name, and `*.json` says a kind of file, not a place.
    """
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and not re.fullmatch(r"__init__\.py|\*(?:\.\w+)?", node.value)
    )


def _spells(value: str) -> bool:
    return LOOKS_LIKE_PATH.fullmatch(value) is not None


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and _called(node.func) in TAKE_PATHS:
        return [each for each in node.args[:1] if _is_text(each) and not _is_mode(each)]
    return []


def _called(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _is_mode(node: ast.expr) -> bool:
    """Whether a literal is the mode of `path.open("rb")`."""
    return isinstance(node, ast.Constant) and re.fullmatch(r"[rwxab+]{1,3}", node.value) is not None


def test_paths_are_spelled_in_layout_when_plumbing_is_read(sources: dict[str, str]) -> None:
    """No module of the plumbing but layout spells a path."""
    plumbing = {name: text for name, text in sources.items() if name.startswith("src/quantgrid/")}

    found = [
        line
        for name, text in plumbing.items()
        if not name.startswith(tuple(EXEMPT))
        for line in offenders(name, text)
    ]

    assert all(any(name.startswith(each) for name in plumbing) for each in EXEMPT)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "planted",
    [
        'root / "results"',
        'Path("plan")',
        'folder.joinpath("shards")',
        'name = "results/demo.csv"',
        'name = f"{cell}.json"',
        'files = folder.glob("shard-*")',
    ],
)
def test_paths_are_refused_when_a_module_spells_one(planted: str) -> None:
    """The policy sees each way to spell a path."""
    assert len(list(offenders("a.py", planted))) == 1


@pytest.mark.parametrize(
    "innocent",
    [
        '"""Writes results/demo.csv into the folder."""',
        'say("see results/demo.csv for all numbers")',
        'parser.add_argument("--wanted", help="plan/<grid>.json")',
        'path.open("rb")',
        "folder / layout.shard_name(3)",
        "ratio = total / 2",
    ],
)
def test_paths_are_not_seen_when_none_is_spelled(innocent: str) -> None:
    """Sentences, docstrings, modes and numbers are no paths."""
    assert list(offenders("a.py", innocent)) == []
