"""Sameness: canonical JSON, and science digests that see meaning and nothing else."""

import ast
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quantgrid.fingerprint import canonical, digest, digest_bytes, digest_file
from quantgrid.science import science_digest

ENTRY = '''\
"""Train."""
import json
import os
from quantlm.loop import fit, step
from quantlm import order


def main() -> int:
    """Do it."""
    rate = 0.5  # half
    return fit(rate, [1, 2,
        3], name="x", text=f"{rate!r:>{8}} and {os.sep}" 'tail')
'''

FILES = {
    "scripts/train.py": ENTRY,
    "src/quantlm/__init__.py": "",
    "src/quantlm/loop.py": "from .inner import halve\n\ndef fit(*a, **k): return halve(a)\n"
    "def step(): return 1\n",
    "src/quantlm/inner.py": "HALF = 0.5\n\ndef halve(x): return HALF, x\n",
    "src/quantlm/order.py": "class Order:\n    'order'\n    size: int = 3\n    'of a window'\n",
    "src/quantlm/methods/__init__.py": "",
    "src/quantlm/methods/rtn.py": "from quantlm.inner import HALF\n",
    "src/other/__init__.py": "X = 1\n",
}

Digest = Callable[..., str]


@pytest.fixture
def science(tmp_path: Path) -> Digest:
    """The digest of a small science after edits: file -> old text -> new text."""
    count = iter(range(1000))

    def of(*edits: tuple[str, str, str], entry: str = "scripts/train.py") -> str:
        root = tmp_path / str(next(count))  # a new folder: parsed files are remembered by path
        for name, text in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, old, new in edits:
            text = (root / name).read_text() if (root / name).exists() else old
            assert old in text
            (root / name).write_text(text.replace(old, new, 1))
        return science_digest(root / entry, source_root=root / "src")

    return of


# -- canonical JSON -------------------------------------------------------------------------------


def test_canonical_json_is_one_text_when_values_are_equal() -> None:
    """Order of keys, tuples and letters beyond ASCII make no difference in bytes."""
    assert canonical({"b": (1, 2.5), "a": "\u00e4"}) == '{"a":"\\u00e4","b":[1,2.5]}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_canonical_json_is_refused_when_a_number_has_no_json(value: float) -> None:
    """NaN equals nothing, so nothing with it has an identity."""
    with pytest.raises(ValueError, match="JSON"):
        canonical({"loss": value})


def test_digests_are_sha256_when_computed(tmp_path: Path) -> None:
    """The known answer, from a value, from bytes and from a file."""
    empty_list = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    (tmp_path / "x").write_bytes(b"[]")

    assert digest([]) == digest_bytes(b"[]") == digest_file(tmp_path / "x") == empty_list


# -- science digests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        ("scripts/train.py", "# half", "# a comment that changed"),
        ("scripts/train.py", '"""Train."""', '"""Train otherwise."""'),
        ("scripts/train.py", '"""Train."""\n', ""),
        ("scripts/train.py", '    """Do it."""\n', ""),
        ("scripts/train.py", "[1, 2,\n        3]", "[1, 2, 3]"),
        ("scripts/train.py", "name=\"x\"", "name='x'"),
        ("scripts/train.py", "0.5", "0.50"),
        ("scripts/train.py", "import json\nimport os\n", "import os\nimport json\n"),
        ("scripts/train.py", "import json\nimport os\n", "import json, os\n"),
        ("scripts/train.py", "fit, step", "step, fit"),
        ("scripts/train.py", "fit, step\n", "fit\nfrom quantlm.loop import step\n"),
        ("src/quantlm/order.py", "    'of a window'\n", ""),
        ("src/quantlm/order.py", "'order'", "'the order'"),
        ("src/quantlm/loop.py", "\n\n", "\n\n\n\n"),
        ("src/quantlm/methods/gptq.py", "", "BLOCK = 128\n"),
        ("src/quantlm/methods/rtn.py", "HALF\n", "HALF\nBITS = 3\n"),
        ("src/other/__init__.py", "X = 1", "X = 2"),
    ],
)  # fmt: skip
def test_science_is_the_same_when_its_meaning_is(
    science: Digest, edit: tuple[str, str, str]
) -> None:
    """Comments, docstrings, layout, order of imports and files outside the closure are nothing."""
    assert science(edit) == science()


@pytest.mark.parametrize(
    "edit",
    [
        ("scripts/train.py", "0.5", "0.25"),
        ("scripts/train.py", "rate = 0.5", "speed = 0.5"),
        ("scripts/train.py", "!r:>{8}", "!r:>{9}"),
        ("scripts/train.py", "!r", "!s"),
        ("scripts/train.py", "1, 2", "2, 1"),
        ("scripts/train.py", "name=\"x\"", "name=b\"x\""),
        ("scripts/train.py", "import fit, step", "import fit as f, step"),
        ("src/quantlm/inner.py", "0.5", "0.25"),
        ("src/quantlm/inner.py", "HALF = 0.5", "HALF = 1"),
        ("src/quantlm/inner.py", "HALF, x", "(HALF, x, True)"),
        ("src/quantlm/order.py", "3", "4"),
        ("src/quantlm/__init__.py", "", "SEED = 1\n"),
    ],
)  # fmt: skip
def test_science_is_another_when_its_meaning_changed(
    science: Digest, edit: tuple[str, str, str]
) -> None:
    """A constant, a name, an order or an import, in the script or deep in its closure."""
    assert science(edit) != science()


def test_science_tells_one_from_true_and_from_its_fraction(science: Digest) -> None:
    """1, 1.0, True and "1" are equal or alike in Python and in JSON; in science they are not."""
    values = ["1", "1.0", "True", '"1"', "1j", "None"]
    digests = {science(("src/quantlm/inner.py", "0.5", value)) for value in values}

    assert len(digests) == len(values)


def test_science_follows_imports_through_modules_that_import_each_other(science: Digest) -> None:
    """A circle of imports ends, and all of it counts."""
    circle = ("src/quantlm/inner.py", "HALF", "import quantlm.loop\nHALF")

    assert science(circle) != science()
    assert science(circle, ("src/quantlm/loop.py", "return 1", "return 2")) != science(circle)


def test_science_follows_imports_inside_functions(science: Digest) -> None:
    """An import that happens late runs all the same."""
    late = ("scripts/train.py", "    rate =", "    from quantlm.methods import rtn\n    rate =")

    assert science(late, ("src/quantlm/methods/rtn.py", "HALF\n", "HALF\nBITS = 3\n")) != science(
        late
    )


def test_science_of_a_method_is_its_own(science: Digest) -> None:
    """A method's digest sees its closure and not its siblings."""
    entry = "src/quantlm/methods/rtn.py"

    assert science(("src/quantlm/loop.py", "1", "2"), entry=entry) == science(entry=entry)
    assert science(("src/quantlm/inner.py", "0.5", "2"), entry=entry) != science(entry=entry)


def test_science_is_unreadable_when_it_is_not_python(science: Digest) -> None:
    """A syntax error is not given an identity."""
    with pytest.raises(SyntaxError):
        science(("src/quantlm/inner.py", "HALF =", "HALF = ="))


def _scripts(root: Path) -> list[Path]:
    return sorted((root / "scripts").glob("*.py")) + sorted(
        (root / "src/quantlm/methods").glob("[a-z]*.py")
    )


def test_real_science_is_the_same_when_reformatted(root: Path, tmp_path: Path) -> None:
    """Our own scripts and their closure, squeezed and written anew by two formatters."""
    scripts = _scripts(root)
    for name in ("scripts", "src/quantlm"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / name, tmp_path / "wide" / name, ignore=ignore)
        shutil.copytree(root / name, tmp_path / "bare" / name, ignore=ignore)
    options = ["--isolated", "--no-cache", "--line-length", "40"]
    ruff = [Path(sys.executable).with_name("ruff"), "format", *options, tmp_path / "wide"]
    subprocess.run(ruff, check=True, capture_output=True)
    for path in (tmp_path / "bare").rglob("*.py"):
        path.write_text(ast.unparse(ast.parse(path.read_text())))

    for script in scripts:
        own = science_digest(script, source_root=root / "src")
        for form in ("wide", "bare"):
            copy = tmp_path / form / script.relative_to(root)
            assert science_digest(copy, source_root=tmp_path / form / "src") == own


def _newer_pythons() -> list[str]:
    """Newer Pythons on the path, or where pyenv keeps those that it hides from the path."""
    hidden = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = map(shutil.which, ("python3.12", "python3.13", "python3.14"))
    found = [*filter(None, named), *map(str, sorted(hidden.glob("3.1[2-9]*/bin/python3")))]
    return [python for python in found if _starts(python)]


def _starts(python: str) -> bool:
    """Whether the name leads to a Python: pyenv leaves names on the path that lead nowhere."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


NEWER_PYTHONS = _newer_pythons() or [
    pytest.param("", marks=pytest.mark.skip(reason="there is no newer Python here"))
]


@pytest.mark.parametrize("python", NEWER_PYTHONS)
def test_science_is_the_same_when_python_is_newer(
    root: Path, tmp_path: Path, python: str, science: Digest
) -> None:
    """A cluster's Python may be newer than the laptop's; the trees differ, the digest does not."""
    own = science(entry="scripts/train.py")
    files = [tmp_path / "0/scripts/train.py", *_scripts(root)]
    sources = [tmp_path / "0/src", *[root / "src"] * (len(files) - 1)]
    code = (
        "import sys; from pathlib import Path; from quantgrid.science import science_digest\n"
        "for entry, source in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    print(science_digest(Path(entry), source_root=Path(source)))"
    )
    pairs = [str(path) for pair in zip(files, sources, strict=True) for path in pair]
    done = subprocess.run(
        [python, "-c", code, *pairs],
        env=os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    expected = [science_digest(f, source_root=s) for f, s in zip(files, sources, strict=True)]
    assert expected[0] == own
    assert done.stdout.split() == expected
