"""Documents tell the truth: links lead somewhere, generated parts equal their generators."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked

DECISION_LINES = 40
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def dead_links(root: Path, name: str, text: str) -> Iterator[str]:
    """Each relative link of a document that leads nowhere."""
    for target in LINK.findall(CODE.sub("", text)):
        path = target.split("#")[0]
        if (
            path
            and not re.match(r"[a-z]+:", path)
            and not (root / name).parent.joinpath(path).exists()
        ):
            yield f"{name}: the link {target} leads nowhere"


def crowded_lines(name: str, text: str) -> Iterator[str]:
    """Each line of prose that holds more than one sentence."""
    prose = re.sub(r"```.*?```", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(prose.splitlines(), start=1):
        if not line.startswith(("|", "    ")) and re.search(r"[a-z`)]{2}[.!?] +[A-Z`]", line):
            yield f"{name}:{number}: one sentence a line"


def test_links_resolve_when_documents_are_read(root: Path, documents: dict[str, str]) -> None:
    """Every relative link leads to a file that exists."""
    found = [line for name, text in documents.items() for line in dead_links(root, name, text)]

    assert not found, "\n".join(found)


def test_prose_has_one_sentence_a_line_when_documents_are_read(documents: dict[str, str]) -> None:
    """A change of one sentence is a change of one line."""
    found = [line for name, text in documents.items() for line in crowded_lines(name, text)]

    assert not found, "\n".join(found)


def test_decisions_have_their_parts_when_read(documents: dict[str, str]) -> None:
    """Each decision record fits a page and has all parts of the form."""
    records = {n: t for n, t in documents.items() if re.match(r"docs/decisions/\d{4}-", n)}
    found = [line for name, text in records.items() for line in missing_parts(name, text)]

    assert len(records) >= 6
    assert not found, "\n".join(found)


def missing_parts(name: str, text: str) -> Iterator[str]:
    """What a decision record lacks."""
    if (lines := len(text.splitlines())) > DECISION_LINES:
        yield f"{name}: {lines} lines of {DECISION_LINES}"
    parts = ("Context", "Decision", "Alternatives", "Consequences", "Wrong if")
    yield from (f"{name}: no part {part}" for part in parts if f"\n## {part}\n" not in text)
    if not re.search(r"^Status: \w+, \d{4}-\d{2}-\d{2}\.$", text, re.MULTILINE):
        yield f"{name}: no line `Status: accepted, 2026-11-30.`"


def _generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docs/generate.py", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_generated_parts_equal_their_generators_when_checked(root: Path) -> None:
    """What documents say of code is what the code says."""
    checked = _generate(root, "--check")

    assert checked.returncode == 0, f"{checked.stdout}{checked.stderr}Run `make fix`."


@pytest.mark.parametrize("name", ["contract.md", "layout.md"])
def test_formats_hold_a_generated_part_when_read(root: Path, name: str) -> None:
    """The formats that code knows are not written by hand."""
    assert "<!-- generated: " in (root / "docs" / "formats" / name).read_text()


def test_generated_parts_are_refused_when_edited(root: Path, tmp_path: Path) -> None:
    """The policy sees a single changed word in a generated part, and mends it."""
    original = (root / "docs" / "formats" / "contract.md").read_text()
    edited = tmp_path / "contract.md"
    edited.write_text(original.replace("seed of the cell", "seed of the grid"))

    checked = _generate(root, "--check", str(edited))
    _generate(root, str(edited))

    assert checked.returncode == 1
    assert str(edited) in checked.stdout
    assert edited.read_text() == original


def _edges(dot: str) -> set[tuple[str, str]]:
    """Arrows of a graph in dot's language, by the labels of their ends."""
    labels = dict(re.findall(r'(\d+)\[label = "(\w+)"', dot))
    return {(labels[tail], labels[head]) for tail, head in re.findall(r"(\d+) -> (\d+)", dot)}


def _drawn_edges(svg: str) -> set[tuple[str, str]]:
    """Arrows of a picture that graphviz drew, by the labels of their ends."""
    labels = dict(re.findall(r"<title>(\d+)</title>.*?<text[^>]*>(\w+)</text>", svg, re.DOTALL))
    arrows = re.findall(r"<title>(\d+)&#45;&gt;(\d+)</title>", svg)
    return {(labels[tail], labels[head]) for tail, head in arrows}


def test_picture_shows_the_rules_when_compared(root: Path, tmp_path: Path) -> None:
    """The picture of the rules has the arrows that Snakemake draws for a fresh working copy."""
    command = ["--snakefile", str(root / "Snakefile"), "--directory", str(tmp_path)]
    line = [sys.executable, "-m", "snakemake", *command, "--rulegraph", "dot"]
    drawn = forked.run(line, cwd=tmp_path, env=os.environ, timeout=180, apart=True)
    assert drawn.returncode == 0, drawn.stderr
    edges = _edges(drawn.stdout)

    assert ("base", "quantise") in edges
    assert _drawn_edges((root / "docs" / "rulegraph.svg").read_text()) == edges, "Run `make fix`."


def test_links_and_prose_are_refused_when_wrong(tmp_path: Path) -> None:
    """The policy sees a dead link and a crowded line, and neither in code."""
    (tmp_path / "there.md").touch()
    good = "See [there](there.md#part) and [home](https://example.org).\n`[a](b)` is code.\n"

    assert list(dead_links(tmp_path, "a.md", good)) == []
    assert len(list(dead_links(tmp_path, "a.md", "See [it](gone.md)."))) == 1
    assert list(crowded_lines("a.md", good)) == []
    assert list(crowded_lines("a.md", "One thing. Another thing.")) == [
        "a.md:1: one sentence a line"
    ]


def test_decisions_are_refused_when_a_part_is_missing() -> None:
    """The policy sees each missing part and a record that is too long."""
    assert len(list(missing_parts("0001-a.md", "# A title\n"))) == 6
    assert "0001-a.md: 41 lines of 40" in list(missing_parts("0001-a.md", "\n" * 41))
