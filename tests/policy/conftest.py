"""The files that the policy is about."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sources(root: Path) -> dict[str, str]:
    """Text of each Python file of the project, by its path below the root."""
    folders = ("src", "scripts", "bench", "tests", "docs")
    return _texts(root, [path for folder in folders for path in (root / folder).rglob("*.py")])


@pytest.fixture(scope="session")
def rule_files(root: Path) -> dict[str, str]:
    """Text of the Snakefile and of each file of rules."""
    found = _texts(root, [root / "Snakefile", *(root / "rules").rglob("*.smk")])
    assert len(found) > 1
    return found


@pytest.fixture(scope="session")
def documents(root: Path) -> dict[str, str]:
    """Text of each Markdown file of the project."""
    folders = ("docs", "config", "envs", "profiles", "bench")
    below = [path for folder in folders for path in (root / folder).rglob("*.md")]
    return _texts(root, [*root.glob("*.md"), *below])


def _texts(root: Path, paths: list[Path]) -> dict[str, str]:
    found = {path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}
    assert found
    return found
