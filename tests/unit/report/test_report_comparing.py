"""Two tables are paired cell by cell, and what cannot be compared is said."""

import json
import math
import os
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal, DataFault
from quantgrid.main import dispatch
from quantgrid.report import comparing

HEAD = "cell,variant,model,tokens_seen,seed,loss,platform,device,verdict,fingerprint"


def _row(cell: str, loss: object, **changes: str) -> str:
    base, variant = cell.split("/")
    facts = {"seed": base[-1], "platform": "local", "device": "cpu", "verdict": "VALID"}
    facts |= {"fingerprint": f"f-{cell}", "tokens": "800"} | changes
    own = [facts[name] for name in ("platform", "device", "verdict", "fingerprint")]
    return ",".join([cell, variant, "n0", facts["tokens"], facts["seed"], str(loss), *own])


def _table(*rows: str) -> dict[str, comparing.Row]:
    return comparing.parse("\n".join([HEAD, *rows]), "t.csv")


def test_tables_are_equal_when_compared_with_themselves() -> None:
    """No difference, nothing missing, a mean of zero."""
    table = _table(_row("a0/none", 2.0), _row("a1/none", 2.5), _row("a0/rtn", 3.0))

    found = comparing.compare(table, table)

    assert [pair.loss for pair in found.pairs] == [0.0, 0.0, 0.0]
    assert (found.only_first, found.only_second, found.torn) == ((), (), ())
    assert [mean.name for mean in found.means()] == ["none", "rtn", "all"]


def test_means_have_their_standard_error_when_forms_differ() -> None:
    """Mean and std / sqrt(n) of the paired differences, form by form; one pair has no error."""
    first = _table(_row("a0/none", 2.0), _row("a1/none", 2.0), _row("a0/rtn", 3.0))
    second = _table(_row("a0/none", 2.1), _row("a1/none", 2.3), _row("a0/rtn", 2.0))

    none, rtn, every = comparing.compare(first, second).means()

    assert (none.num_cells, rtn.num_cells, every.num_cells) == (2, 1, 3)
    assert none.loss == pytest.approx(0.2)
    assert none.loss_se == pytest.approx(0.1)
    assert (rtn.loss, rtn.loss_se) == (-1.0, None)


@pytest.mark.parametrize("verdict", ["SUSPECT", "INVALID"])
def test_cells_are_listed_and_not_averaged_when_a_verdict_is_bad(verdict: str) -> None:
    """In either table."""
    good, bad = _table(_row("a0/none", 2.0)), _table(_row("a0/none", 9.0, verdict=verdict))

    for found in (comparing.compare(good, bad), comparing.compare(bad, good)):
        assert abs(found.pairs[0].loss) == 7.0
        assert found.pairs[0].differs == ("verdict",)
        assert list(found.means()) == []


def test_cells_are_paired_by_their_axes_when_grids_name_budgets_otherwise() -> None:
    """Model, tokens that were seen, seed and form; an id that both have comes first."""
    first = _table(_row("n0-t800-s0/none", 2.0), _row("n0-t900-s0/none", 2.0, tokens="900"))
    second = _table(_row("n0-x7-s0/none", 2.5), _row("n0-t900-s0/none", 2.1, tokens="900"))

    found = comparing.compare(first, second)

    assert {pair.cell: round(pair.loss, 9) for pair in found.pairs} == {
        "n0-t800-s0/none": 0.5,
        "n0-t900-s0/none": 0.1,
    }
    assert (found.only_first, found.only_second) == ((), ())


def test_one_fingerprint_with_two_numbers_is_told_when_seen() -> None:
    """The same was asked, and the answer is another one: with the place that differs."""
    first, second = _table(_row("a0/none", 2.0)), _table(_row("a0/none", 2.5, device="gpu"))

    found = comparing.compare(first, second)

    assert [pair.cell for pair in found.torn] == ["a0/none"]
    text = "\n".join(comparing.lines(found, ("one", "two"), 10))
    assert "ONE FINGERPRINT, TWO NUMBERS: 1 cell; a0/none differs by +0.500000 (device)" in text
    other = _table(_row("a0/none", 2.5, fingerprint="other"))
    assert comparing.compare(first, other).torn == ()


def test_cells_without_a_partner_or_a_loss_are_said_when_tables_differ() -> None:
    """Nothing is left out silently."""
    first = _table(_row("a0/none", 2.0), _row("a1/none", ""), _row("b0/none", 1.0, tokens="1"))
    second = _table(_row("a0/none", 2.0), _row("a1/none", 2.0), _row("c0/none", 1.0, tokens="2"))

    found = comparing.compare(first, second)

    assert found.unmeasured == ("a1/none",)
    assert (found.only_first, found.only_second) == (("b0/none",), ("c0/none",))
    text = "\n".join(comparing.lines(found, ("one", "two"), 10))
    assert "only in one: 1, such as b0/none" in text
    assert "without a loss in one of them: 1, such as a1/none" in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n1,2", "no table of cells"),
        (f"{HEAD}\n{_row('a0/none', 1)}\n{_row('a0/none', 1)}", "a cell twice"),
        (f"{HEAD}\na0/none,none", "a row of another length"),
        (f"{HEAD}\n{_row('a0/none', 'high')}", "a loss is no number"),
    ],
)
def test_table_is_refused_when_it_is_none(text: str, what: str) -> None:
    """With its place."""
    with pytest.raises(DataFault, match=what) as raised:
        comparing.parse(text, "t.csv")

    assert "t.csv" in str(raised.value)


def test_diff_prints_both_forms_when_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a person and as JSON; a grid that was not run here is refused with what to do."""
    names = [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    for name, loss in zip(names, (2.0, 2.25), strict=True):
        Path(name).write_text(f"{HEAD}\n{_row('a0/none', loss)}\n")

    assert dispatch(["diff", *names]) == 0
    text = capsys.readouterr().out
    assert dispatch(["diff", *names, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    ours, theirs = os.pipe()  # as `<(git show HEAD~3:results/demo.csv)` gives
    os.write(theirs, Path(names[1]).read_bytes())
    os.close(theirs)
    assert dispatch(["diff", names[1], f"/dev/fd/{ours}"]) == 0
    os.close(ours)
    assert "1 with equal loss" in capsys.readouterr().out
    with pytest.raises(ConfigRefusal, match="no table to compare"):
        dispatch(["diff", "demo", names[0], "--root", str(tmp_path)])

    assert "1 cell in both: 0 with equal loss, 1 with another one" in text
    assert " +0.250000  a0/none" in text
    assert math.isclose(data["means"][0]["loss"], 0.25)
    assert data["pairs"][0]["cell"] == "a0/none"
