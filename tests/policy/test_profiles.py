"""Every profile carries the settings without which Snakemake loses money or truth."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

# Setting -> (value, why).  The facts behind them: docs/decisions/0002-fingerprint-decides.md.
REQUIRED: dict[str, tuple[Any, str]] = {
    "rerun-triggers": (["mtime", "params"], "code and input would schedule finished cells again"),
    "rerun-incomplete": (True, "a killed job must not need a hand"),
    "scheduler": ("greedy", "the default solver takes longer than the jobs"),
    "keep-going": (True, "one failure must not leave paid jobs waiting"),
}


def offenders(name: str, settings: dict[str, Any]) -> Iterator[str]:
    """Each required setting that a profile lacks or changes."""
    if name == "default":
        yield "default: Snakemake loads it unasked and lets it overrule --profile"
    for key, (value, why) in REQUIRED.items():
        if settings.get(key) != value:
            yield f"{name}: {key} is {settings.get(key)!r}, must be {value!r}: {why}"
    if settings.get("keep-incomplete"):
        yield f"{name}: keep-incomplete takes half a file for a result"


def _profiles(root: Path) -> dict[str, dict[str, Any]]:
    files = (root / "profiles").glob("*/*.yaml")
    return {path.parent.name: yaml.safe_load(path.read_text()) for path in files}


def test_profiles_keep_the_settings_when_read(root: Path) -> None:
    """Each profile has the required settings, and none is called default."""
    profiles = _profiles(root)
    found = [line for name, settings in profiles.items() for line in offenders(name, settings)]

    assert "local" in profiles
    assert not found, "\n".join(found)


@pytest.mark.parametrize("key", REQUIRED)
def test_profiles_are_refused_when_a_setting_is_missing(key: str) -> None:
    """The policy sees each missing setting."""
    good = {each: value for each, (value, _) in REQUIRED.items()}

    assert list(offenders("local", good)) == []
    assert len(list(offenders("local", {**good, key: None}))) == 1


def test_profiles_are_refused_when_called_default() -> None:
    """The policy sees a default profile, and one that keeps incomplete files."""
    good = {each: value for each, (value, _) in REQUIRED.items()}

    assert len(list(offenders("default", good))) == 1
    assert len(list(offenders("local", {**good, "keep-incomplete": True}))) == 1


def test_lab_host_leaves_memory_to_the_size_of_the_model(root: Path) -> None:
    """Snakemake asks for a gigabyte on every cluster unless a profile takes that away."""
    asked = _profiles(root)["slurm"]["default-resources"]

    assert {"mem_mb=0", "tmpdir=None"} <= set(asked)
