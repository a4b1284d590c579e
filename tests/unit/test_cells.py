"""`quantgrid cells` lists cells and targets, quickly."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from quantgrid.commands import cells
from quantgrid.errors import ConfigRefusal


@pytest.fixture
def printed(root: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """What the command prints for these options."""

    def of(*options: str) -> str:
        parser = argparse.ArgumentParser()
        cells.configure(parser)
        assert cells.main(parser.parse_args(["--root", str(root), *options])) == 0
        return capsys.readouterr().out

    return of


def test_cells_are_those_of_the_settings_when_nothing_is_asked(printed) -> None:  # type: ignore[no-untyped-def]
    """One id a line, in declared order."""
    lines = printed().splitlines()

    assert (len(lines), lines[0]) == (105, "n0-t100k-s0/none")


def test_cells_are_targets_when_asked(printed) -> None:  # type: ignore[no-untyped-def]
    """What is printed can be handed to Snakemake as it is."""
    options = ["--grid", "smoke", "--select", "bits=3 and tokens=20k", "--targets"]

    assert printed(*options).splitlines() == [
        "results/n0-t20k-s0/rtn-w3g32-noclip/result.json",
        "results/n0-t20k-s0/gptq-w3g32-noclip/result.json",
    ]
    assert json.loads(printed(*options, "--json")) == printed(*options).splitlines()


def test_cells_are_facts_when_asked_for_json(printed) -> None:  # type: ignore[no-untyped-def]
    """Everything that can be selected by is told of each cell."""
    facts = json.loads(printed("--select", "cell=n0-t800k-s1/gptq-w3g32-noclip", "--json"))

    assert facts == [
        {
            "cell": "n0-t800k-s1/gptq-w3g32-noclip", "base": "n0-t800k-s1",
            "variant": "gptq-w3g32-noclip", "model": "n0", "tokens": 800_000, "budget": "t800k",
            "seed": 1, "method": "gptq", "bits": 3.0, "group": 32, "scale": "noclip",
            "asymmetric": "false", "block": "main", "start": None, "passes": 1,
        }
    ]  # fmt: skip


def test_cells_are_refused_when_nothing_matches(printed) -> None:  # type: ignore[no-untyped-def]
    """An empty list would be taken for an empty job."""
    with pytest.raises(ConfigRefusal, match="matches none of 105 cells"):
        printed("--select", "bits=7")


def test_cells_import_nothing_slow_when_listing(root: Path) -> None:
    """No torch, pandas, numpy or Snakemake for a list of names."""
    code = (
        "import argparse, sys; from quantgrid.commands import cells\n"
        "parser = argparse.ArgumentParser(); cells.configure(parser)\n"
        "cells.main(parser.parse_args(sys.argv[1:]))\n"
        "slow = {'torch', 'pandas', 'numpy', 'snakemake', 'boto3'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    command = [sys.executable, "-c", code, "--root", str(root), "--grid", "paper"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1008
