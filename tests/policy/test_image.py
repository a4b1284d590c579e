"""The image of rented machines: what it is made from is exact, and it begins as orders say."""

import ast
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("train", "cloud")


@pytest.fixture(scope="module")
def recipe(root: Path) -> dict[str, list[str]]:
    """Instruction -> its arguments, in order."""
    found: dict[str, list[str]] = {}
    for line in (root / "envs/Containerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found.setdefault(word, []).append(rest)
    return found


def test_base_is_one_image_when_it_is_pulled_again(recipe: dict[str, list[str]]) -> None:
    """A tag may be another image tomorrow: the base has a digest, and the Python of CI."""
    (base,) = recipe["FROM"]
    assert re.fullmatch(r"docker\.io/library/python:3\.11\S*@sha256:[0-9a-f]{64}", base)


def test_packages_are_those_of_the_lock_when_installed(
    root: Path, recipe: dict[str, list[str]]
) -> None:
    """One installation, under constraints.txt, of what machines and coordinators import."""
    (install,) = recipe["RUN"]
    assert "pip install --constraint constraints.txt" in install
    assert install.endswith(f"'.[{','.join(EXTRAS)}]'")
    copied = [word for line in recipe["COPY"] for word in line.split()[:-1]]
    assert {"pyproject.toml", "constraints.txt", "src"} <= {*copied}
    assert [name for name in copied if not (root / name).exists()] == []


def _needed(name: str, extras: tuple[str, ...]) -> list[Requirement]:
    """What a distribution requires on this machine with some extras; nothing if it is not here."""
    try:
        found = [Requirement(each) for each in requires(name) or ()]
    except PackageNotFoundError:
        return []
    ways = [{"extra": extra} for extra in ("", *extras)]
    return [each for each in found if not each.marker or any(map(each.marker.evaluate, ways))]


def test_lock_names_every_package_when_the_image_is_made(root: Path) -> None:
    """All that is installed with it has one version: in the lock, or exactly in its requirer."""
    lock = (root / "constraints.txt").read_text()
    locked = {canonicalize_name(n) for n in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    open_, seen = [("quantgrid", EXTRAS)], set[str]()
    loose = []
    while open_:
        name, extras = open_.pop()
        for each in _needed(name, tuple(extras)):
            key = canonicalize_name(each.name)
            is_exact = any(part.operator == "==" for part in each.specifier)
            if key not in locked and not is_exact:
                loose.append(f"{name} -> {each}")
            if key not in seen:
                seen.add(key)
                open_.append((each.name, tuple(each.extras)))
    assert {"snakemake", "torch", "modal", "boto3"} <= seen
    assert loose == []


def test_first_process_is_the_supervisor_when_nobody_says_otherwise(
    root: Path, recipe: dict[str, list[str]], tmp_path: Path
) -> None:
    """The words are those of every order; without an order it ends with a sentence."""
    (words,) = map(ast.literal_eval, recipe["CMD"])
    assert (
        'facts.python, "-m", "quantgrid", "supervise"'
        in (root / "src/quantgrid/rental/renting.py").read_text()
    )
    assert words == ["python", "-m", "quantgrid", "supervise"]
    assert "ENTRYPOINT" not in recipe  # Modal hands the first process to one, if there is one

    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 78
    assert "refused: " in done.stderr
    assert "Traceback" not in done.stderr
