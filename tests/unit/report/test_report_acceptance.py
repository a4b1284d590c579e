"""What `make laws` promises is checked against records that follow the research, or break it."""

from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_grid
from quantgrid.main import dispatch
from quantgrid.report import acceptance
from quantgrid.report.records import Grid, read_grid, read_wanted
from quantgrid.spec import Form
from report_records import N0, NONE, demo_records, write_grid
from working_copy import PROJECT

ROW = {bits: Form(method="rtn", bits=bits, group="row", scale="noclip") for bits in (3, 4, 5, 8)}
KV8 = Form(method="cache", kv_bits=8)
AFTER = Form(method="rtn", bits="ternary", group="row", scale="absmean")
TRAINED = Form(method="qat", bits="ternary", group="row", scale="absmean", start="scratch")
BUDGETS = {"t400k": 400_000, "t800k": 800_000, "t1600k": 1_600_000}
Levels = tuple[tuple[Form, float, float], ...]
GOOD: Levels = (
    (NONE, 0.0, 0.0),
    (ROW[8], 1e-5, 0.0),
    (ROW[5], 0.002, 0.46),
    (ROW[4], 0.010, 0.46),
    (ROW[3], 0.050, 0.46),
    (KV8, 0.0, 0.0),
    (AFTER, 0.6, 0.3),
    (TRAINED, 0.08, 0.0),
)


def _grid(folder: Path, forms: Levels = GOOD) -> tuple[Grid, Path]:
    records = demo_records(forms=forms, budgets=BUDGETS, seeds=1, sequences=128)
    wanted, results = write_grid(folder, records, name="laws")
    return read_grid(read_wanted(wanted), results), folder


def _broken(found: list[acceptance.Promise]) -> set[str]:
    return {each.name for each in found if not each.is_kept}


def test_promises_are_kept_when_records_follow_the_research(tmp_path: Path) -> None:
    """Free forms, order of bits at both ends, growth, ternary, and the fit are all looked at."""
    found = acceptance.promises(_grid(tmp_path)[0])

    assert _broken(found) == set()
    names = {each.name for each in found}
    assert "fewer bits lose more: RTN row, 3 and 4 at 400,000" in names
    assert "fewer bits lose more: RTN row, 3 and 4 at 1,600,000" in names
    assert "damage grows with tokens: RTN W4 row" in names
    assert "costs nothing: cache-kv8 at 400,000" in names
    assert "ternary from scratch beats ternary afterwards at 400,000" in names
    assert "damage law of RTN row: gamma of bits" in names
    assert not any("800,000" in name and "fewer" in name for name in names)


@pytest.mark.parametrize(
    ("form", "level", "exponent", "broken"),
    [
        (ROW[8], 0.002, 0.0, "costs nothing: rtn-w8row-noclip"),
        (KV8, -0.002, 0.0, "costs nothing: cache-kv8"),
        (ROW[4], 0.060, 0.46, "fewer bits lose more: RTN row, 3 and 4"),
        (ROW[4], 0.010, -0.3, "damage grows with tokens: RTN W4 row"),
        (ROW[5], 0.009, 0.46, "damage law of RTN row"),
        (TRAINED, 0.4, 0.0, "ternary from scratch"),
    ],
)
def test_promise_is_broken_when_a_form_does_not_behave(
    tmp_path: Path, form: Form, level: float, exponent: float, broken: str
) -> None:
    """Each promise sees its own violation."""
    forms = tuple((form, level, exponent) if each[0] == form else each for each in GOOD)

    names = _broken(acceptance.promises(_grid(tmp_path, forms)[0]))

    assert any(name.startswith(broken) for name in names), names


def test_promise_waits_when_it_needs_more_tokens_a_parameter(tmp_path: Path) -> None:
    """W4 row against g32 is promised from five tokens a parameter on (QU 1.3)."""
    fine = Form(method="rtn", bits=4, group=32, scale="noclip")
    grid, _ = _grid(tmp_path, (*GOOD, (fine, 0.002, 0.46)))

    names = [each.name for each in acceptance.promises(grid) if "W4 row and g32" in each.name]

    assert 5 * N0.num_parameters > 400_000
    assert names == [
        "finer scales lose less: W4 row and g32 at 800,000",
        "finer scales lose less: W4 row and g32 at 1,600,000",
    ]


def test_promises_are_those_of_the_forms_that_a_grid_has(demo: Grid) -> None:
    """Any finished grid may be asked: what it lacks is not looked at."""
    names = {each.name.partition(" at ")[0] for each in acceptance.promises(demo)}

    assert "GPTQ loses less than RTN: W3 g32" in names
    assert not any("damage law" in name or "costs nothing" in name for name in names)


def test_every_form_of_a_promise_is_in_the_grid_of_laws(root: Path) -> None:
    """A promise whose form was renamed would be silent."""
    there = {cell.variant for cell in load_grid(root, "laws").cells}
    laws = [(law.left, law.right) for law in acceptance.MORE]
    asked = {variant for pair in laws for variant in pair} | set(acceptance.FREE)

    assert asked | {acceptance.SCRATCH, acceptance.TERNARY} <= there
    assert {variant for variant, _ in acceptance.measured()} <= there


def test_command_fails_when_a_law_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says it, and the page shows both columns of the table."""
    _, good = _grid(tmp_path / "good")
    bad = tuple((each[0], 0.06, 0.46) if each[0] == ROW[4] else each for each in GOOD)
    _, other = _grid(tmp_path / "bad", bad)

    assert dispatch(["laws", "laws", "--root", str(good), "--out", str(good / "laws.md")]) == 0
    (other / "config").symlink_to(PROJECT / "config")
    with pytest.raises(ConfigRefusal, match=r"plan/demo\.json"):  # the configured grid has no plan
        dispatch(["laws", "--root", str(other)])
    assert dispatch(["laws", "laws", "--root", str(other)]) == 1

    assert "| gamma of tokens" not in (page := (good / "laws.md").read_text())
    assert "published 0.507" in page
    assert "| form | tokens | here | research |" in page
    assert " | NO |" in capsys.readouterr().out
