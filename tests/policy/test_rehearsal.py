"""A double shares no code with its subject: it would share its bugs."""

import ast
from pathlib import Path

import pytest

ADAPTER = "platform.py"
"""A client of a double that offers the product's port has to know the product."""


def offenders(name: str, text: str) -> list[str]:
    """Each import of the product in a file of a double."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [f"{name}: imports {each}" for each in names if each.startswith("quant")]
    return found


def test_doubles_import_nothing_of_the_product_when_read(root: Path) -> None:
    """No module of a double but the client in the product's port knows quantgrid or quantlm."""
    files = [path for path in (root / "rehearsal").rglob("*.py") if path.name != ADAPTER]

    found = [line for path in files for line in offenders(path.name, path.read_text())]

    assert files
    assert not found, "\n".join(found)


@pytest.mark.parametrize("planted", ["import quantgrid.errors", "from quantlm import loop"])
def test_doubles_are_refused_when_they_import_the_product(planted: str) -> None:
    """The policy sees each way to import the product."""
    assert len(offenders("a.py", planted)) == 1
