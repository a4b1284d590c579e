"""Every incident test says what it plays and which guard stops it, and the guard exists."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

GUARD = re.compile(r"^Guards?:\s*(.+?)(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
PLAYED = {
    "runpod": {*range(1, 15), 19, 24, *range(26, 31), 32},
    "modal": {10, *range(15, 19), *range(20, 26)},
}
"""Numbers of the research on platforms (its section 4) that are played on each double."""
NAME = re.compile(r"`(quant(?:grid|lm)[\w.]+)`")


def offenders(name: str, text: str) -> Iterator[str]:
    """What the docstring of an incident test fails to say, or says of a guard that is not there."""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    if not re.search(r"^Incident:\s*\S", docstring, re.MULTILINE):
        yield f"{name}: no line `Incident: what happened`"
    guards = GUARD.search(docstring)
    named = NAME.findall(guards[1]) if guards else []
    if not named:
        yield f"{name}: no line `Guard: ...` that names code, such as `quantgrid.corpus.view.open`"
    yield from (f"{name}: the guard {each} does not exist" for each in named if not exists(each))


def exists(dotted: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_incidents_name_their_guard_when_read(root: Path) -> None:
    """Each incident test names its incident and code that exists."""
    files = sorted((root / "tests" / "incidents").glob("test_*.py"))

    found = [line for path in files for line in offenders(path.name, path.read_text())]

    assert files
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('"""Guard: `quantgrid.errors.Refusal`."""', "no line `Incident"),
        ('"""Incident: lost.\n\nGuard: somebody looks.\n"""', "no line `Guard"),
        ('"""Incident: lost.\n\nGuard: `quantgrid.errors.Nobody`.\n"""', "does not exist"),
    ],
)
def test_incidents_are_refused_when_they_name_no_guard(planted: str, fault: str) -> None:
    """The policy sees a missing incident, a missing guard, and a guard that is gone."""
    good = '"""Incident: a thing was lost.\n\nGuard: `quantgrid.errors.Refusal` refuses it.\n"""'
    found = list(offenders("test_a.py", planted))

    assert list(offenders("test_a.py", good)) == []
    assert len(found) == 1
    assert fault in found[0]


PROVIDERS = range(1, 33)
"""The list of what went wrong on rented machines elsewhere: CP (cloud-platforms.md), section 4."""


def played(text: str) -> Iterator[int]:
    """Numbers of that list that the tests of a module name as what they play."""
    tests = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef))
    for test in tests:
        line = (ast.get_docstring(test) or "").partition(":")[0]
        yield from map(int, re.findall(r"\b4\.(\d+)\b", line if line.startswith("CP ") else ""))


def test_every_incident_of_the_list_is_played(root: Path) -> None:
    """Each number of the list has a test of its own, named in the first words of its docstring."""
    files = (root / "tests" / "incidents").glob("test_*.py")

    found = {number for path in files for number in played(path.read_text())}

    assert set(PROVIDERS) - found == set()
    assert not list(played('def test_x() -> None:\n    """Plays 4.7: nothing."""\n'))


@pytest.mark.parametrize("platform", PLAYED)
def test_incidents_of_a_platform_are_played_on_its_double(root: Path, platform: str) -> None:
    """Each number that concerns it is in the docstring of a test over its real interface."""
    told = "\n".join(
        ast.get_docstring(function) or ""
        for path in (root / "tests" / "incidents").glob(f"test_{platform}_*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
    )

    played = {int(number) for number in re.findall(r"\b4\.(\d+)", told)}

    assert PLAYED[platform] - played == set()
