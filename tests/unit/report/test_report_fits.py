"""Fitted laws find the constants that made the numbers, and those that were published."""

import json
import math
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal, DataFault
from quantgrid.main import dispatch
from quantgrid.report import scaling, table_fits
from quantgrid.report.fits import Point, find_law, fitted
from quantgrid.report.records import read_grid, read_wanted
from quantgrid.spec import Form
from report_records import N0, N1, NONE, demo_records, write_grid

# -- effective parameters -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published() -> scaling.ScalingLaw:
    """The law of QuEST's runs."""
    return scaling.fit(scaling.published_runs())


def test_published_runs_are_those_of_the_paper() -> None:
    """104 runs, six of them unquantised; the losses at 100 tokens a parameter are the paper's."""
    runs = scaling.published_runs()

    at_100 = {
        (run.scheme, run.parameters): run.loss for run in runs if run.tokens / run.parameters > 90
    }
    assert len(runs) == 104
    assert sum(run.scheme == scaling.UNQUANTISED for run in runs) == 6
    assert at_100["w4a4", 30_482_560] == pytest.approx(3.2721, abs=1e-4)
    assert at_100["w2", 102_777_856] == pytest.approx(3.0359, abs=1e-4)
    assert at_100["w4a4-plain", 49_556_736] == pytest.approx(3.1661, abs=1e-4)


def test_published_runs_give_the_published_efficiencies(published: scaling.ScalingLaw) -> None:
    """Within .03 of an independent refit, with less than .015 nats left over."""
    expected = {"w4a4": 0.690, "w3a3": 0.430, "w2a2": 0.156, "w4": 0.833, "w2": 0.409, "fp4": 0.618}

    assert published.rmse < 0.015
    for scheme, efficiency in expected.items():
        assert published.efficiency[scheme] == pytest.approx(efficiency, abs=0.03)


def test_law_predicts_what_it_was_fitted_to(published: scaling.ScalingLaw) -> None:
    """Its own rmse is that of its predictions."""
    runs = scaling.published_runs()
    missed = [published.loss(run.scheme, run.parameters, run.tokens) - run.loss for run in runs]

    assert math.sqrt(math.fsum(m * m for m in missed) / len(runs)) == pytest.approx(published.rmse)


TRUTH = scaling.ScalingLaw(400.0, 0.34, 410.0, 0.28, 1.7, {"w4": 0.7, "bf16": 1.0}, 0.0)


def following(law: scaling.ScalingLaw) -> list[scaling.Run]:
    """Runs whose numbers are exactly those of a law."""
    return [
        scaling.Run(scheme, n, d * n, law.loss(scheme, n, d * n))
        for scheme in ("bf16", "w4")
        for n in (1e6, 1e7, 1e8)
        for d in (5, 20, 80)
    ]


def test_fit_finds_the_constants_that_made_the_numbers() -> None:
    """On exact numbers of a law, the law comes back."""
    law = scaling.fit(following(TRUTH))

    assert law.efficiency["w4"] == pytest.approx(0.7, abs=0.01)
    assert law.alpha == pytest.approx(0.34, abs=0.01)
    assert law.rmse < 1e-4


def test_fit_refuses_when_runs_do_not_fix_a_law() -> None:
    """One size, or too few runs, is a fault that counts what is there."""
    runs = [scaling.Run("bf16", 1e6, d, 3.0) for d in (1e7, 2e7, 4e7)]

    with pytest.raises(DataFault, match="expected 2 sizes, 2 lengths, 1 unquantised, 7 runs"):
        scaling.fit(runs)


def test_runs_are_read_from_the_table_of_a_grid_when_given() -> None:
    """The variant is the scheme, `none` has all parameters, and repeated tokens are left out."""
    lines = [
        "base,variant,parameters,tokens,tokens_seen,loss",
        "n1-x5-s0,none,10,50,48,2.5",
        "n1-x5-s0,rtn-w4row-noclip,10,50,48,2.6",
        "n1-x5-s0-u24p2,none,10,50,48,2.9",
    ]

    runs = scaling.parse_runs(lines, where="t.csv", unquantised="none")

    assert runs == [
        scaling.Run("bf16", 10, 48, 2.5),
        scaling.Run("rtn-w4row-noclip", 10, 48, 2.6),
    ]


@pytest.mark.parametrize("lines", [["a,b", "1,2"], ["scheme,parameters,tokens,loss", "x,1,2,?"]])
def test_runs_are_refused_when_the_table_is_another(lines: list[str]) -> None:
    """A missing column or a number that is none names what was seen."""
    with pytest.raises(DataFault, match="no table of runs"):
        scaling.parse_runs(lines, where="t.csv")


def test_fit_command_prints_each_scheme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON, of a table of runs that keep 0.7 of their parameters."""
    table = tmp_path / "runs.csv"
    lines = [f"{r.scheme},{r.parameters},{r.tokens},{r.loss}" for r in following(TRUTH)]
    table.write_text("\n".join(["scheme,parameters,tokens,loss", *lines]))

    assert dispatch(["fit", str(table), "--unquantised", "bf16"]) == 0
    text = capsys.readouterr().out
    assert dispatch(["fit", str(table), "--unquantised", "bf16", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)

    assert "rmse 0.0000" in text
    assert "0.700  w4" in text
    assert facts["efficiency"]["w4"] == pytest.approx(0.7, abs=0.01)


@pytest.mark.nightly
def test_fit_command_fits_the_published_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """What the documents quote comes out of one command."""
    assert dispatch(["fit", "--published"]) == 0

    text = capsys.readouterr().out
    assert "rmse 0.013" in text
    assert "0.690  w4a4" in text


# -- the damage law -------------------------------------------------------------------------------


def _points(gamma_n: float = 0.0, sizes: tuple[float, ...] = (1e6,)) -> list[Point]:
    return [
        Point(p, d, n, 0.06 * d**0.5 / n**gamma_n * math.exp(-p / 0.6))
        for p in (3, 4, 5)
        for d in (1e6, 4e6, 1e7)
        for n in sizes
    ]


def test_damage_law_comes_back_when_numbers_follow_it() -> None:
    """Exponents and constant of one size, and with the size's exponent of several."""
    law, sized = find_law(_points()), find_law(_points(0.34, (1e6, 1e7)))

    assert law is not None
    assert (law.gamma_d, law.gamma_post, law.gamma_n) == pytest.approx((0.5, 0.6, None))
    assert (law.k, law.r_squared, law.num_points) == pytest.approx((0.06, 1.0, 9))
    assert sized is not None
    assert (sized.gamma_d, sized.gamma_post, sized.gamma_n) == pytest.approx((0.5, 0.6, 0.34))
    assert sized.damage(4, 4e6, 1e7) == pytest.approx(
        0.06 * 4e6**0.5 / 1e7**0.34 * math.exp(-4 / 0.6)
    )


def test_damage_law_is_not_there_when_points_do_not_fix_it() -> None:
    """One width, one length, or as many constants as points give no law."""
    points = _points()

    assert find_law([p for p in points if p.bits == 3]) is None
    assert find_law([p for p in points if p.tokens == 1e6]) is None
    assert find_law(points[:2] + points[3:4]) is None
    assert find_law([]) is None


def test_grid_has_a_law_for_each_way_with_two_widths(tmp_path: Path) -> None:
    """Widths of one method, group and rule make one law; a lone width makes none."""
    ways = (
        (NONE, 0.0, 0.0),
        (Form(method="rtn", bits=3, group="row", scale="noclip"), 0.02, 0.5),
        (Form(method="rtn", bits=2, group="row", scale="noclip"), 0.1, 0.5),
        (Form(method="gptq", bits=3, group=32, scale="noclip"), 0.01, 0.5),
        (Form(method="activation", bits=3, group="row", scale="noclip", activation_bits=8), 0.1, 0),
        (Form(method="activation", bits=2, group="row", scale="noclip", activation_bits=8), 0.2, 0),
    )
    records = demo_records(models=(N0, N1), forms=ways)
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    found = fitted(grid)

    assert [(each.name, len(each.variants)) for each in found] == [("RTN row noclip", 2)]
    law = found[0].law
    assert law.num_points == 12
    assert law.gamma_d == pytest.approx(0.5, abs=0.1)
    assert law.gamma_post == pytest.approx(1 / math.log(5), abs=0.05)
    assert law.r_squared > 0.98


# -- any table ------------------------------------------------------------------------------------


def _damages(**columns: str) -> str:
    rows = [
        {
            "method": "mine",
            "bits": str(bits),
            "tokens": str(tokens),
            "parameters": "1000000",
            "delta": str(2e-4 * tokens**0.5 * math.exp(-bits / 0.6)),
        }
        | columns
        for bits in (3, 4, 5)
        for tokens in (10**6, 10**7)
    ]
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    return "# a remark\n" + "\n".join(lines) + "\n"


def test_damage_law_comes_back_from_a_table_of_anybody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five columns are enough, and the constants that made the numbers are found."""
    table = tmp_path / "theirs.csv"
    table.write_text(_damages())

    assert dispatch(["fit", str(table), "--damage", "--json"]) == 0

    law = json.loads(capsys.readouterr().out)["mine"]
    assert law["gamma_d"] == pytest.approx(0.5)
    assert law["gamma_post"] == pytest.approx(0.6)
    assert law["r_squared"] == pytest.approx(1.0)


def test_damage_that_is_not_told_from_zero_is_left_out(tmp_path: Path) -> None:
    """With a column z, points below 3 fix nothing."""
    assert table_fits.damage_laws(_damages(z="9").splitlines(), where="x")
    assert table_fits.damage_laws(_damages(z="2.9").splitlines(), where="x") == []


def test_laws_take_valid_rows_alone_when_the_table_has_verdicts() -> None:
    """A SUSPECT number is in the table of a grid, an INVALID one is empty: neither is fitted."""
    assert table_fits.damage_laws(_damages(verdict="VALID").splitlines(), where="x")
    assert table_fits.damage_laws(_damages(verdict="SUSPECT").splitlines(), where="x") == []
    lines = ["variant,parameters,tokens,loss,verdict", "a,1,2,3,VALID", "b,1,2,9,SUSPECT"]

    runs = scaling.parse_runs([*lines, "c,1,2,,INVALID"], where="t.csv")

    assert [run.scheme for run in runs] == ["a"]


@pytest.mark.parametrize("options", [["--damage"], []])
def test_fit_is_refused_when_there_is_no_table(tmp_path: Path, options: list[str]) -> None:
    """A misspelt name is a sentence."""
    with pytest.raises(ConfigRefusal, match="there is no table to fit"):
        dispatch(["fit", str(tmp_path / "nosuch.csv"), *options])


@pytest.mark.parametrize("column", ["parameters", "delta", "tokens", "bits"])
def test_table_without_a_column_is_refused(column: str) -> None:
    """The message names what is missing."""
    with pytest.raises(DataFault, match=column):
        table_fits.damage_laws(_damages().replace(column, "other").splitlines(), where="x")
