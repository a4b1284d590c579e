"""What a grid file may say of a program of its own; each refusal names file and line."""

from pathlib import Path
from typing import Any

import pytest

from own_parts import SUM, OwnDesk
from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_grid
from quantgrid.own_script import OwnCell
from quantgrid.select import choose

WRONG: list[tuple[dict[str, Any], str, int]] = [
    ({"script": "code/none.py"}, "there is no script code/none.py", 4),
    ({"script": "no-such-program-anywhere"}, "there is no script no-such", 4),
    ({"script": "code/notes.sh"}, r"code/notes\.sh is not executable.*chmod \+x", 4),
    ({"arguments": "{b}"}, r"\{b\} is no name here; expected .*deadline_s", 5),
    ({"arguments": "{a.real}"}, "a name and nothing else", 5),
    ({"arguments": "{corpus}", "axes": {}}, "corpus: true", 5),
    ({"axes": {"a": [1, 2]}}, "a never reaches the script", 7),
    ({"seeds": [0, 1]}, "seed never reaches the script", 6),
    ({"axes": {"out": [1]}}, "no axis can be called out", 7),
    ({"inputs": ["none/*"]}, r"none/\* is declared and matches no file", 7),
    ({"inputs": ["../x"]}, r"\.\./x leads out", 7),
    ({"corpus": True}, "reads a corpus, and the grid names none", 6),
    ({"results": {"stdout": "("}}, "no regular expression", 6),
    ({"results": {"stdout": "loss"}}, "names no result", 6),
    ({"results": {"json": "a", "stdout": "(?P<b>.)"}}, "not in json and stdout", 7),
    ({"results": {}}, "results", 5),
    ({"reslts": 1}, "'reslts' is no key here, did you mean 'results'", 6),
    ({"axes": {"a b": [1]}}, "a b", 6),
    ({"exclude": ["c=1"]}, "'c' is no name", 7),
    ({"folder": "gone"}, "there is no folder gone", 6),
]


@pytest.mark.parametrize(("change", "words", "line"), WRONG, ids=[w[1][:24] for w in WRONG])
def test_block_is_refused_when_it_cannot_be_meant(
    tmp_path: Path, change: dict[str, Any], words: str, line: int
) -> None:
    """The message says what is wrong and where it stands."""
    block = {"script": "code/train.py", "arguments": "x", "results": {"json": "r.json"}, **change}
    desk = OwnDesk.lay(tmp_path, SUM, {}, {"notes.sh": "echo hello\n"})
    path = tmp_path / "config" / "grids" / "mine.yaml"
    desk.declare({key: block[key] for key in ("script", "arguments", "results")} | block)
    text = path.read_text()

    with pytest.raises(ConfigRefusal, match=words) as refused:
        desk.cells()

    where = str(refused.value.where)
    assert where.startswith("config/grids/mine.yaml:")
    number = int(where.rpartition(":")[2])
    key = next(iter(change))
    lines = text.splitlines()
    assert number >= 1 + next(n for n, each in enumerate(lines) if key in each or n == 2)


def test_number_is_read_when_yaml_takes_it_for_a_text(tmp_path: Path) -> None:
    """`1e-3` is a number to people and a text to YAML 1.1."""
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "{lr}", "axes": {"lr": ["1e-3"]}})

    assert desk.cells()[0].axes == {"lr": 0.001}


def test_word_stays_a_word_when_no_number_is_that_large(tmp_path: Path) -> None:
    """A fingerprint knows no infinity: what looks like one is passed on as it was written."""
    values = ["1e999", "inf", "nan"]
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "{lr}", "axes": {"lr": values}})

    assert [cell.axes["lr"] for cell in desk.cells()] == values


def test_exclusion_leaves_out_when_it_names_an_axis(tmp_path: Path) -> None:
    """Blocks of their own speak the same language."""
    axes = {"lr": [0.1, 0.2], "opt": ["sgd", "adam"]}
    block = {"arguments": "{lr} {opt}", "axes": axes, "exclude": ["lr>0.15 and opt=sgd"]}
    desk = OwnDesk.lay(tmp_path, SUM, block)

    assert [tuple(cell.axes.values()) for cell in desk.cells()] == [
        (0.1, "sgd"), (0.1, "adam"), (0.2, "adam"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("lr<0.15", 2),
        ("lr=1e-1 and opt=adam", 1),
        ("method=own", 4),
        ("seed=0 and opt in (sgd)", 2),
    ],
)
def test_select_chooses_by_axes_when_cells_have_their_own(
    tmp_path: Path, text: str, count: int
) -> None:
    """Axes are names beside those that every grid has."""
    axes = {"lr": [0.1, 0.2], "opt": ["sgd", "adam"]}
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "{lr} {opt}", "axes": axes})

    assert len(choose(desk.cells(), text)) == count


def test_select_names_the_axes_when_a_name_is_unknown(tmp_path: Path) -> None:
    """Who mistypes an axis is told what there is."""
    desk = OwnDesk.lay(tmp_path, SUM, {"arguments": "{width}", "axes": {"width": [1]}})

    with pytest.raises(ConfigRefusal, match="did you mean 'width'"):
        choose(desk.cells(), "widht=1")


def test_grid_needs_a_corpus_when_a_block_trains_models(root: Path, tmp_path: Path) -> None:
    """Only blocks of their own do without."""
    desk = OwnDesk.lay(tmp_path, SUM, {})
    path = tmp_path / "config" / "grids" / "mine.yaml"
    path.write_text(
        "blocks:\n  main:\n    models: [n0]\n    tokens: [20000]\n    seeds: [0]\n"
        "    forms: [{method: none}]\n"
    )

    with pytest.raises(
        ConfigRefusal, match=r"the grid has no corpus.*\(config/grids/mine.yaml:2\)"
    ):
        desk.cells()


def test_grid_holds_models_and_programs_when_both_are_declared(root: Path) -> None:
    """The shipped example holds programs alone; the others hold none."""
    own = load_grid(root, "own")

    assert own.cells == ()
    assert all(isinstance(cell, OwnCell) for cell in own.every)
    assert load_grid(root, "smoke").own == ()
