"""A plan is quick: what is heavy is imported by whoever computes, never by whoever plans."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "pandas", "numpy", "boto3", "botocore", "matplotlib", "safetensors", "scipy")

# Runs Snakemake as its console script does, and prints which heavy packages it left loaded.
PARSE = """
import sys
from snakemake.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""

TRIVIAL = """
rule all:
    log: "trivial.log"
    output: "trivial"
    shell: "exec touch {output}"
"""


def heavy(loaded: set[str]) -> set[str]:
    """The heavy packages among top-level names."""
    return loaded & set(HEAVY)


def _python(code: str, *arguments: str, cwd: Path) -> set[str]:
    """Top-level names that a fresh interpreter has loaded after some code."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


def _imported_by(module: str, cwd: Path) -> set[str]:
    code = f"import sys, {module}\nprint('loaded:', *{{n.partition('.')[0] for n in sys.modules}})"
    return _python(code, cwd=cwd)


def _planned(snakefile: Path, *arguments: str, cwd: Path) -> set[str]:
    place = ["--snakefile", str(snakefile), "--directory", str(cwd)]
    return _python(PARSE, *place, "--dry-run", *arguments, cwd=cwd)


@pytest.mark.parametrize("module", ["quantgrid.workflow", "quantgrid.main", "quantgrid.runner"])
def test_plumbing_is_light_when_imported(module: str, tmp_path: Path) -> None:
    """What planning and running import brings no heavy package."""
    assert heavy(_imported_by(module, tmp_path)) == set()


def test_parse_is_light_when_planning(root: Path, tmp_path: Path) -> None:
    """A dry run loads no heavy package that a trivial Snakefile would not load as well.

    Snakemake's own start brings some: its SLURM plugin imports pandas, for example.
    """
    trivial = tmp_path / "trivial.smk"
    trivial.write_text(TRIVIAL)
    profile = str(root / "profiles" / "local")

    floor = heavy(_planned(trivial, cwd=tmp_path))
    seen = heavy(_planned(root / "Snakefile", "--profile", profile, cwd=tmp_path))

    assert seen <= floor
    assert "torch" not in seen


def test_heavy_packages_are_seen_when_imported(tmp_path: Path) -> None:
    """The policy sees a heavy package that a parse brings."""
    planted = tmp_path / "planted.smk"
    planted.write_text("import matplotlib\n" + TRIVIAL)

    assert "matplotlib" in heavy(_planned(planted, cwd=tmp_path))
    assert heavy(_imported_by("matplotlib", tmp_path)) >= {"matplotlib", "numpy"}
