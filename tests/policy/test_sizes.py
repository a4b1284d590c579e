"""Everything is small enough to be read at a glance."""

import ast
from collections.abc import Iterator

MODULE_LINES = 400
FUNCTION_LINES = 40


def offenders(name: str, text: str) -> Iterator[str]:
    """Each module and function of a file that is longer than it may be."""
    if (lines := len(text.splitlines())) > MODULE_LINES:
        yield f"{name}: {lines} lines, at most {MODULE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines of {FUNCTION_LINES}"


def test_sizes_hold_when_files_are_read(sources: dict[str, str]) -> None:
    """No function has more than 40 lines and no module more than 400."""
    found = [line for name, text in sources.items() for line in offenders(name, text)]

    assert not found, "\n".join(found)


def test_sizes_are_refused_when_one_line_too_long() -> None:
    """The policy sees a function and a module that are one line too long, and no shorter one."""
    body = "    pass\n"
    fitting = "def fits():\n" + body * (FUNCTION_LINES - 1)
    long = "def long():\n" + body * FUNCTION_LINES

    assert list(offenders("a.py", fitting)) == []
    assert list(offenders("a.py", long)) == ["a.py:1: long has 41 lines of 40"]
    assert list(offenders("a.py", "x = 1\n" * 401)) == ["a.py: 401 lines, at most 400"]
