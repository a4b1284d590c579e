"""The record's page names every field of a record that was really made."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROW = re.compile(r"^\| (`.+?) \|", re.MULTILINE)


def fields(value: Any, path: str = "") -> Iterator[str]:
    """The dotted names of all leaves of a record; objects in a list are `name[]`."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from fields(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from fields(item, f"{path}[]")
    else:
        yield path


def documented(page: str) -> list[str]:
    """The names in the first column of the page's tables."""
    return [name for row in ROW.findall(page) for name in re.findall(r"`([^`]+)`", row)]


def covers(pattern: str, field: str) -> bool:
    """Whether a documented name is that of a field; `<id>` is one id, `.*` all that is below."""
    parts = re.split(r"(<\w+>|\.\*$)", pattern)
    kinds = {"<": r"[^/]+?", ".": r"(?:\..+)?"}
    return re.fullmatch("".join(_regex(part, kinds) for part in parts), field) is not None


def _regex(part: str, kinds: dict[str, str]) -> str:
    special = re.fullmatch(r"<\w+>|\.\*", part)
    return kinds[part[0]] if special else re.escape(part)


def undocumented(record: dict[str, Any], page: str) -> list[str]:
    """Fields of a record that no name on the page covers."""
    names = documented(page)
    return [f for f in dict.fromkeys(fields(record)) if not any(covers(n, f) for n in names)]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page that describes the record."""
    return (root / "docs" / "formats" / "record.md").read_text()


@pytest.mark.parametrize("kind", ["trunks", "weights", "cells"])
def test_record_is_documented_when_made(root: Path, page: str, kind: str) -> None:
    """Every field of a real record of each kind is on the page."""
    record = json.loads((root / "tests" / "data" / f"record-{kind}.json").read_text())

    assert record["kind"] == kind
    assert undocumented(record, page) == []


def test_record_is_refused_when_a_field_is_not_documented(page: str) -> None:
    """The policy sees a field that the page does not name, at the top and below."""
    planted = {
        "verdict": None,
        "mood": "good",
        "links": [{"mood": "good"}],
        "spec": {"a": {"b": 1}},
    }

    assert undocumented(planted, page) == ["mood", "links[].mood"]
