"""Cells with a program of their own: ids, what they are told, and what makes them the same."""

from pathlib import Path

import pytest

from own_parts import SUM, OwnDesk
from quantgrid import template
from quantgrid.errors import ConfigRefusal
from quantgrid.own_files import MOST_COPIED_BYTES

BLOCK = {"arguments": "--a {a} --seed {seed}", "axes": {"a": [0.5, 2]}, "seeds": [0, 1]}


def test_template_fills_in_two_steps_when_values_hold_braces() -> None:
    """A value is a text whatever it holds, and a brace is written twice."""
    once = template.fill("{{x}} {a} {out}", {"a": "{out}"})

    assert template.finish(once, {"out": "/o"}) == "{x} {out} /o"


@pytest.mark.parametrize("text", ["{", "}", "{a.b}", "{a[0]}", "{a:5}", "{a!r}", "{}", "{0}"])
def test_template_is_refused_when_it_holds_more_than_a_name(text: str) -> None:
    """Nothing of Python's formats is reachable from a grid file."""
    with pytest.raises(template.TemplateError):
        template.names(text)


def test_cells_have_readable_ids_when_axes_are_numbers_and_texts(tmp_path: Path) -> None:
    """Block, axes in their order, seed."""
    axes = {"lr": [1e-05, 0.25, -3], "opt": ["adam w/β"], "fast": [True]}
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "{lr} {opt} {fast}", "axes": axes})

    assert [cell.id for cell in desk.cells()] == [
        "line-lr1em05-optadam_w_-fasttrue-s0/own",
        "line-lr0p25-optadam_w_-fasttrue-s0/own",
        "line-lrm3-optadam_w_-fasttrue-s0/own",
    ]


def test_cells_are_refused_when_two_have_one_id(tmp_path: Path) -> None:
    """An id keeps less of a text than the text; two texts must differ in what it keeps."""
    block = {"arguments": "{opt}", "axes": {"opt": ["a/b", "a b"]}}
    desk = OwnDesk.lay(tmp_path, SUM, block)

    with pytest.raises(ConfigRefusal, match=r"two cells are called line-opta_b-s0/own.*mine.yaml:"):
        desk.cells()


def test_value_stays_one_word_when_it_holds_blanks(tmp_path: Path) -> None:
    """The command line is split before values are put in."""
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "--name {n}", "axes": {"n": ["a 'b' {c}"]}})

    told = desk.cells()[0].told

    assert [template.finish(word, {}) for word in told["arguments"]] == ["--name", "a 'b' {c}"]


def test_fingerprints_differ_when_anything_counts(tmp_path: Path) -> None:
    """Axes, seed, arguments, environment, results, files to keep, inputs, code and linked data."""
    files = {"options.json": "{}", "data/big.bin": "abc"}
    desk = OwnDesk.lay(tmp_path, SUM, BLOCK, files)
    seen = set(desk.fingerprints())
    assert len(seen) == 4

    for change in (
        {"arguments": "--a {a} --seed {seed} --fast"},
        {"environment": {"MODE": "x"}},
        {"results": {"json": "other.json"}},
        {"keep": ["*.txt"]},
        {"inputs": ["options.json"]},
        {"links": ["data"]},
    ):
        desk.declare({**BLOCK, **change})
        new = set(desk.fingerprints())
        assert not new & seen, change
        seen |= new
    (tmp_path / "code" / "data" / "big.bin").write_text("abcd")
    assert not set(desk.fingerprints()) & seen


def test_fingerprints_stay_when_nothing_counts(tmp_path: Path) -> None:
    """Comments, files that no attempt sees, and how it is interrupted and watched."""
    desk = OwnDesk.lay(tmp_path, SUM, BLOCK)
    before = desk.fingerprints()

    (tmp_path / "code" / "train.py").write_text(f"# a remark\n{SUM}")
    (tmp_path / "code" / "log.txt").write_text("left by a call by hand")
    desk.declare({**BLOCK, "resume": {"files": ["c.pt"]}, "metrics": {"file": "m.csv"}})

    assert desk.fingerprints() == before


def test_fingerprint_follows_imports_when_they_lie_beside_the_script(tmp_path: Path) -> None:
    """A module of the script's own folder counts, and one that nobody imports does not."""
    files = {"model.py": "SIZE = 1\n", "lib/deep.py": "X = 1\n", "other.py": "X = 1\n"}
    desk = OwnDesk.lay(tmp_path, f"import model\nfrom lib import deep\n{SUM}", BLOCK, files)
    first = desk.fingerprints()

    (tmp_path / "code" / "other.py").write_text("X = 2\n")
    assert desk.fingerprints() == first
    (tmp_path / "code" / "lib" / "deep.py").write_text("X = 2\n")
    second = desk.fingerprints()
    assert not set(first) & set(second)


def test_folder_is_refused_when_it_is_too_large_to_copy(tmp_path: Path) -> None:
    """Large data belongs under links, and the message says so."""
    desk = OwnDesk.lay(tmp_path, SUM, {**BLOCK, "inputs": ["big.bin"]})
    with (tmp_path / "code" / "big.bin").open("wb") as file:
        file.truncate(MOST_COPIED_BYTES + 1)

    with pytest.raises(ConfigRefusal, match=r"too large.*big\.bin.*`links`"):
        desk.cells()
