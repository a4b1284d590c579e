"""One file a command, found by name; only that file is imported."""

import json
from pathlib import Path

import pytest

from core_parts import python
from quantgrid import main

LISTED = """
import json, sys
from quantgrid.main import dispatch
try:
    dispatch(["run", "--help"])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def test_commands_are_found_when_their_file_is_there(root: Path) -> None:
    """The list is the folder."""
    files = (root / "src" / "quantgrid" / "commands").glob("[!_]*.py")

    assert main.names() == sorted(file.stem for file in files)
    assert {"archive", "cells", "fold", "run"} <= set(main.names())


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_usage_lists_every_command_when_help_is_wanted(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Each command has one line that says what it does."""
    assert main.dispatch(arguments) == 0

    said = capsys.readouterr().out
    for name in main.names():
        (line,) = [line for line in said.splitlines() if line.startswith(f"  {name} ")]
        assert len(line.split()) > 3


@pytest.mark.parametrize("name", ["rum", "__init__", "", "run.py", "../run", "-x"])
def test_usage_is_an_error_when_there_is_no_such_command(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """64 and the list, on standard error."""
    assert main.dispatch([name]) == 64

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"refused: there is no command {name!r}")
    assert "  run " in err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gc", "did you mean `quantgrid archive gc`?"),
        ("pin", "did you mean `quantgrid corpus pin`?"),
        ("staus", "did you mean 'status'?"),
    ],
)
def test_usage_names_the_command_that_was_meant(
    capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    """An act of a command is typed as one, and letters are swapped."""
    assert main.dispatch([name]) == 64

    assert capsys.readouterr().err.splitlines()[0].endswith(told)


def test_setting_of_snakemake_is_told_in_our_words(capsys: pytest.CaptureFixture[str]) -> None:
    """`--config grid=smoke` is typed all day; where no grid is taken, nothing is said of one."""
    for command, is_told in (("status", True), ("attach", False)):
        with pytest.raises(SystemExit) as left:
            main.dispatch([command, "--config", "grid=smoke"])
        assert left.value.code == 2
        assert ("here it is --grid NAME" in capsys.readouterr().err) is is_told


def test_dispatch_imports_one_command_when_asked(tmp_path: Path) -> None:
    """`quantgrid run` starts once per job: what it does not need is not imported."""
    code, said = python(LISTED, cwd=tmp_path)

    modules = set(json.loads(said.splitlines()[-1]))
    assert code == 0
    assert "quantgrid.commands.run" in modules
    assert "quantgrid.commands.cells" not in modules
    heavy = {"torch", "numpy", "pandas", "boto3", "snakemake", "yaml", "jsonschema"}
    slow = {"dataclasses", "inspect", "ast", "subprocess", "socket", "secrets", "quantgrid.load"}
    assert (heavy | slow) & modules == set()


def test_module_is_the_program_when_run(tmp_path: Path) -> None:
    """`python -m quantgrid` is the console script."""
    text = "import runpy, sys; sys.argv[1:] = ['rum']; "
    text += "runpy.run_module('quantgrid', run_name='__main__')"

    code, said = python(text, cwd=tmp_path)

    assert code == 64
    assert "there is no command 'rum'" in said
