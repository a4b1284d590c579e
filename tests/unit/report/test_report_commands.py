"""The two commands: exit codes, whole files or none, equal bytes."""

from pathlib import Path

import pytest

from quantgrid import entry
from quantgrid.main import dispatch
from report_records import demo_records, write_grid


def run(*arguments: object) -> int:
    """The exit code of a command, as a shell would see it."""
    return entry.code_of(lambda: dispatch([str(each) for each in arguments]))


def table(wanted: Path, results: Path, out: Path) -> int:
    """Write the table into a folder of its own."""
    laws = out / "demo-laws.csv"
    options = ("--results", results, "--out", out / "demo.csv", "--laws", laws)
    return run("table", "--wanted", wanted, *options)


def report(wanted: Path, results: Path, out: Path) -> int:
    """Write page and plots beside the table."""
    written = ("--table", out / "demo.csv", "--laws", out / "demo-laws.csv")
    places = ("--results", results, "--out", out / "demo.html", "--plots", out)
    return run("report", "--wanted", wanted, *written, *places)


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Path]:
    """Plan and results of seven cells."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    return write_grid(tmp_path / "grid", records)


def test_commands_write_all_files_when_run_in_turn(
    small: tuple[Path, Path], tmp_path: Path
) -> None:
    """Two tables, three plots and a page, and nothing else."""
    assert table(*small, tmp_path / "out") == 0
    assert report(*small, tmp_path / "out") == 0

    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "demo.csv",
        "demo-laws.csv",
        "demo.html",
        "demo-bits.svg",
        "demo-damage.svg",
        "demo-size.svg",
    }


def test_commands_write_equal_bytes_when_run_again(
    small: tuple[Path, Path], tmp_path: Path
) -> None:
    """Equal records give equal files, wherever they lie."""
    for name in ("one", "other"):
        assert table(*small, tmp_path / name) == 0
        assert report(*small, tmp_path / name) == 0

    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


def test_commands_find_folders_when_not_told(small: tuple[Path, Path]) -> None:
    """Results and plots lie beside what is written, as in a working copy."""
    wanted, results = small
    out, laws = results / "demo.csv", results / "demo-laws.csv"

    assert run("table", "--wanted", wanted, "--out", out, "--laws", laws) == 0
    written = ("--table", out, "--laws", laws, "--out", results / "demo.html")
    assert run("report", "--wanted", wanted, *written) == 0

    assert (results / "demo-bits.svg").exists()


def test_table_is_refused_when_a_cell_is_missing(
    small: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 78, one sentence that names the cell, nothing written."""
    wanted, results = small
    (results / "n0-t400k-s0" / "rtn-w3g32-noclip" / "result.json").unlink()

    assert table(wanted, results, tmp_path / "out") == 78

    said = capsys.readouterr().err
    assert said.startswith("refused: 1 of 7 cells")
    assert "n0-t400k-s0/rtn-w3g32-noclip" in said
    assert not (tmp_path / "out").exists()


def test_report_is_refused_when_the_table_is_old(
    small: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that does not hold the wanted fingerprints gives no page."""
    assert table(*small, tmp_path / "out") == 0
    path = tmp_path / "out" / "demo.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))

    assert report(*small, tmp_path / "out") == 78

    assert "the table is not of the cells" in capsys.readouterr().err
    assert not (tmp_path / "out" / "demo.html").exists()
