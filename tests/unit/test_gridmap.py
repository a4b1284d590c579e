"""The map shows every cell once, within the width, with a legend that counts."""

import re
from collections import Counter

import pytest

from quantgrid.gridmap import Spot, State, lines


def _spots(state: State = State.WAITING, **changed: State) -> list[Spot]:
    """Two models, two budgets, three seeds, two forms; `changed` by `<base>_<variant>`."""
    return [
        Spot(base, form, changed.get(f"{base}_{form}".replace("-", ""), state))
        for form in ("none", "rtn-w4row-noclip")
        for base in (f"{m}-{b}-s{s}" for m in ("n0", "n100") for b in ("x5", "x20") for s in "012")
    ]


def test_map_has_a_row_a_form_and_a_column_a_base_when_drawn() -> None:
    """Seeds stand side by side; models and budgets stand above."""
    spots = _spots(n0x5s1_none=State.DONE, n100x20s2_rtnw4rownoclip=State.FAILED)

    text = "\n".join(lines(spots, 80, is_coloured=False))

    assert text == (
        "                            n0      n100\n"
        "                            x5  x20 x5   x20\n"
        "none                        .#. ... ...  ...\n"
        "rtn-w4row-noclip            ... ... ...  ..F\n"
        "\n"
        "# 1 done   . 22 waiting   F 1 failed"
    )


@pytest.mark.parametrize("width", [50, 80, 200])
def test_map_fits_and_loses_no_cell_when_the_terminal_is_narrow(width: int) -> None:
    """Whatever the width, every mark is drawn once."""
    spots = [
        Spot(f"n{model}-x{budget}-s{seed}", f"form-{form}-with-a-very-long-name-of-its-own", state)
        for model in range(5)
        for budget in (5, 20, 40)
        for seed in range(3)
        for form, state in enumerate(State)
    ]

    drawn = list(lines(spots, width, is_coloured=False))

    assert max(map(len, drawn)) <= width
    rows = [line[28:] for line in drawn if line.startswith("form-")]
    marks = Counter("".join(rows).replace(" ", ""))
    assert set(marks.values()) == {45}
    assert len(marks) == len(State)


def test_map_keeps_its_columns_when_it_is_coloured() -> None:
    """Colours change nothing that is printed."""
    spots = _spots(State.DONE, n0x5s0_none=State.SUSPECT)

    plain = list(lines(spots, 80, is_coloured=False))
    coloured = list(lines(spots, 80, is_coloured=True))

    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain
    assert coloured != plain


def test_seeds_stand_together_when_they_are_in_the_middle_of_an_id() -> None:
    """Bases with a bound on unique tokens, and programs of their own."""
    spots = [Spot(f"n1-x20-s{seed}-u100p4", "none", State.DONE) for seed in "01"]
    spots += [Spot("mine-lr3-s0", "own", State.DONE), Spot("mine-fast", "own", State.DONE)]

    text = "\n".join(lines(spots, 80, is_coloured=False))

    assert "x20-u100p4" in text
    assert "none                        ##" in text
    assert re.search(r"^own\s+#\s+#$", text, re.MULTILINE)
