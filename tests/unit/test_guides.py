"""Whatever a guide tells a person to type can be typed, and the runbook knows every end."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import quantgrid
from guide_commands import GUIDES, INLINE, PROJECT, blocks, problems
from quantgrid import errors
from quantgrid.notify import Kind
from quantgrid.watch import rules

LEFT_OUT = re.compile(r"expected (one|at least one) argument|are required|invalid .* 'X'")
"""A sentence may name an option without its value."""
DOCUMENTS = sorted([*GUIDES.glob("*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"])


def _kinds(kind: type[errors.QuantgridError]) -> set[type[errors.QuantgridError]]:
    below = set(kind.__subclasses__())
    return below.union(*map(_kinds, below))


def _all_errors() -> set[str]:
    """Names of all classes of errors, in whatever module they are."""
    folders = [f"{quantgrid.__path__[0]}/rental", *quantgrid.__path__]
    for folder, prefix in zip(folders, ("quantgrid.rental.", "quantgrid."), strict=True):
        for module in pkgutil.iter_modules([folder], prefix):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    return {kind.__name__ for kind in _kinds(errors.QuantgridError)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_command_of_a_document_can_be_typed(path: Path) -> None:
    """Programs, commands, options and targets exist, in blocks and in sentences."""
    text = path.read_text()
    lines = [line for block in blocks(text) if block.is_command for line in block.text.splitlines()]
    inline = INLINE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))

    assert [problem for line in lines for problem in problems(line)] == []
    loose = [problem for line in inline for problem in problems(line)]
    assert [each for each in loose if not LEFT_OUT.search(each)] == []


@pytest.mark.parametrize("path", sorted(GUIDES.glob("*.md")), ids=lambda path: path.stem)
def test_every_block_of_a_guide_says_what_it_is(path: Path) -> None:
    """A misspelled word behind a fence would take its commands out of every test."""
    known = {"console", "text", "yaml", "python", "python3"}
    for block in blocks(path.read_text()):
        assert known & set(block.words[:1]) or not block.words, block
        assert not block.is_command or set(block.words[1:]) <= {"nightly", "account"}, block


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("quantgrid whi CELL", "no command whi"),
        ("quantgrid why", "required: cell"),
        ("quantgrid status --wach", "--wach"),
        ("snakemake --profil=x --nonsense", "--nonsense"),
        ("make tests", "no target tests"),
        ("quantgrid cells | jq .", "what is jq?"),
        ("quantgrid why 'a", "No closing quotation"),
    ],
)
def test_command_is_refused_when_it_cannot_be_typed(line: str, problem: str) -> None:
    """The check sees each way to be wrong."""
    assert problem in " ".join(problems(line))


def test_runbook_knows_every_error_alarm_and_notice() -> None:
    """Each class of errors, each rule of the watch, each kind of notice: meaning, check, way on."""
    text = (GUIDES / "runbook.md").read_text()
    sections = dict(re.findall(r"^## (\S+)\n\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    known = [each for each in vars(rules).values() if isinstance(each, type)]
    names = {each.name for each in known if isinstance(getattr(each, "name", None), str)}

    wanted = _all_errors() | names | {rules.STALL}
    assert wanted - sections.keys() == set()
    for name in wanted:
        labels = re.findall(r"^\*\*(\w[\w ]*):\*\*", sections[name], re.MULTILINE)
        assert labels == ["Means", "Check", "Way on"], name
    assert {kind.value for kind in Kind} <= set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
