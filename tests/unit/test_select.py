"""A part of a grid is chosen by comparisons."""

from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_grid
from quantgrid.select import NAMES, choose, parse
from quantgrid.spec import Cell


@pytest.fixture(scope="module")
def demo(root: Path) -> tuple[Cell, ...]:
    """The 105 cells of demo: 7 forms x 5 budgets x 3 seeds."""
    return load_grid(root, "demo").cells


@pytest.fixture(scope="module")
def paper(root: Path) -> tuple[Cell, ...]:
    """The 1,008 cells of paper."""
    return load_grid(root, "paper").cells


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 105),
        ("  ", 105),
        ("bits<=3", 75),
        ("bits<=3 and method=gptq", 30),
        ("bits<2", 15),
        ("bits=ternary", 15),
        ("bits=1.58", 15),
        ("bits!=3", 75),
        ("bits>=0", 90),
        ("not bits>=0", 15),
        ("tokens>=0.8M", 42),
        ("tokens>=800k", 42),
        ("tokens=100000", 21),
        ("budget=t100k", 21),
        ("seed in (0, 2)", 70),
        ("method in (rtn,gptq) and group=32", 60),
        ("group=row", 30),
        ("group>=32", 60),
        ("asymmetric=true", 30),
        ("asymmetric=false", 60),
        ("start=cooldown", 15),
        ("passes=1", 105),
        ("block=main and model==n0", 105),
        ("scale=noclip", 45),
        ("base=n0-t800k-s0", 7),
        ("variant='gptq-w3g32-noclip'", 15),
        ('cell="n0-t800k-s0/gptq-w3g32-noclip"', 1),
        ("cell=n0-t800k-s0/none", 1),
        ("method=rtn or method=gptq and seed=0", 55),
        ("(method=rtn or method=gptq) and seed=0", 25),
        ("not not seed=0", 35),
        ("not seed=0 and not seed=1", 35),
    ],
)
def test_select_chooses_these_cells_when_asked(
    demo: tuple[Cell, ...], text: str, count: int
) -> None:
    """Each sentence chooses as many cells as it means; `and` binds before `or`."""
    assert sum(map(parse(text).matches, demo)) == count


def test_select_sees_blocks_starts_and_passes_when_the_grid_has_them(
    paper: tuple[Cell, ...],
) -> None:
    """The properties that only the large grid varies."""
    counts = {
        "block=D and passes>1": 9,
        "start=scratch": 72,
        "budget=x80 and block=A0": 15,
        "model in (n1, n10) and block=C": 48,
    }

    assert {text: sum(map(parse(text).matches, paper)) for text in counts} == counts


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("bitz<=3", "'bitz' is no name, did you mean 'bits'?", 0),
        ("seed=0 and bitz<=3", "'bitz' is no name", 11),
        ("bits<=x", "'x' is no value of bits", 6),
        ("tokens>=.8M", "'.8M' is no value of tokens", 8),
        ("bits<=3k3", "'3k3' is no value of bits", 6),
        ("bits=row", "'row' is no value of bits", 5),
        ("bits<ternary and", "something is missing here", 16),
        ("method<3", "method < 3 compares no numbers", 6),
        ("group<row", "group < row compares no numbers", 5),
        ("(seed=0", "something is missing here", 7),
        ("seed=0)", "')' is out of place", 6),
        ("seed in ()", "seed lacks a value here", 9),
        ("seed in (1 2)", "'2' is out of place", 11),
        ("seed", "something is missing here", 4),
        ("seed = and", "seed lacks a value here", 7),
        ("seed=0 seed=1", "'seed' is out of place", 7),
        ("seed=0; import os", "';' cannot be read", 6),
        ("and seed=0", "'and' is out of place", 0),
        ("__import__('os')", "'__import__' is no name", 0),
    ],
)
def test_select_points_at_the_place_when_it_cannot_be_read(
    text: str, what: str, place: int
) -> None:
    """A refusal says what is wrong and shows where, under the text itself."""
    with pytest.raises(ConfigRefusal) as refusal:
        parse(text)

    message = str(refusal.value)
    assert what in message
    shown, caret = message.splitlines()[-2:]
    assert shown.removeprefix("select: ") == text
    assert caret.index("^") - len("select: ") == place


@pytest.mark.parametrize("deep", ["(" * 3_000 + "seed=0" + ")" * 3_000, "not " * 3_000 + "seed=0"])
def test_select_is_refused_when_it_is_too_deep_to_be_meant(deep: str) -> None:
    """What a broken program typed ends in a sentence, and no recursion."""
    with pytest.raises(ConfigRefusal, match="a select cannot be read; expected at most 200"):
        parse(deep)


def test_select_lists_all_names_when_one_is_unknown() -> None:
    """Whoever misspells a name is told all of them."""
    with pytest.raises(ConfigRefusal) as refusal:
        parse("size=3")

    assert all(name in str(refusal.value) for name in NAMES)


def test_choose_tells_the_values_there_are_when_nothing_matches(demo: tuple[Cell, ...]) -> None:
    """A value that no cell has is not an empty answer but a refusal with those there are."""
    with pytest.raises(ConfigRefusal, match="matches none of 105 cells") as refusal:
        choose(demo, "method=gtpq and seed=0")

    assert "method: none, rtn, gptq, qat; seed: 0, 1, 2" in str(refusal.value)


def test_choose_keeps_the_declared_order_when_it_chooses(demo: tuple[Cell, ...]) -> None:
    """The chosen cells are a subsequence."""
    chosen = choose(demo, "bits<=3")

    assert list(chosen) == [cell for cell in demo if cell in chosen]
