"""A plan is quick: what is heavy is imported by whoever computes, never by whoever plans."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
HEAVY = ("torch", "pandas", "numpy", "boto3", "botocore", "matplotlib", "safetensors", "scipy")

# Runs Snakemake as its console script does where `make` installed it (.ci/ours-first), and prints
# which heavy packages it left loaded.
PARSE = """
import sys
sys.path.insert(0, {src!r})
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
    code = PARSE.replace("{src!r}", repr(str(PROJECT / "src")))
    return _python(code, *place, "--dry-run", *arguments, cwd=cwd)


@pytest.mark.parametrize("module", ["quantgrid.workflow", "quantgrid.main", "quantgrid.runner"])
def test_plumbing_is_light_when_imported(module: str, tmp_path: Path) -> None:
    """What planning and running import brings no heavy package."""
    assert heavy(_imported_by(module, tmp_path)) == set()


@pytest.mark.parametrize("command", ["run", "fold"])
def test_job_is_light_when_it_starts(command: str, tmp_path: Path) -> None:
    """Every cell starts both: not even modules of Python that cost milliseconds come along."""
    loaded = _imported_by(f"quantgrid.commands.{command}", tmp_path)

    assert loaded & {*HEAVY, "statistics", "subprocess", "decimal", "asyncio", "ssl"} == set()


def test_parse_is_light_when_planning(root: Path, tmp_path: Path) -> None:
    """A dry run loads no heavy package that a trivial Snakefile would not load as well.

    Its SLURM plugin would bring pandas and NumPy; ours loads that plugin first, and without.
    To name its own Snakefile it would bring boto3 and requests; our display answers before it asks.
    """
    trivial = tmp_path / "trivial.smk"
    trivial.write_text(TRIVIAL)
    profile = str(root / "profiles" / "local")

    floor = heavy(_planned(trivial, cwd=tmp_path))
    everything = _planned(root / "Snakefile", "--profile", profile, cwd=tmp_path)
    seen = heavy(everything)

    assert seen <= floor
    assert not {"torch", "pandas", "numpy"} & (floor | seen)
    assert not {"boto3", "smart_open"} & everything


def test_environment_finds_our_plugins_first(tmp_path: Path) -> None:
    """After `.ci/ours-first`; a copy that PYTHONPATH names still comes before both."""
    venv.create(tmp_path / "venv", with_pip=False)
    own = {**os.environ, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"}
    subprocess.run([PROJECT / ".ci/ours-first"], env=own, check=True)
    program = [tmp_path / "venv/bin/python", "-c", "import sys; print(*sys.path, sep='\\n')"]
    own |= {"PYTHONPATH": str(tmp_path / "copy/src")}

    done = subprocess.run(program, env=own, capture_output=True, text=True, check=True)

    places = done.stdout.split()
    (packages,) = (place for place in places if place.endswith("site-packages"))
    assert places.index(str(tmp_path / "copy/src")) < places.index(str(PROJECT / "src"))
    assert places.index(str(PROJECT / "src")) < places.index(packages)


def test_report_of_the_slurm_plugin_finds_pandas_when_asked_for() -> None:
    """What stood for it while the plugin was loaded is gone, and gives the real one."""
    code = """
import sys
sys.path.insert(0, {src!r})
from snakemake_executor_plugin_labslurm import stock
from snakemake_executor_plugin_slurm import efficiency_report as report
assert "pandas" not in sys.modules
assert report.pd.isna(None)
import pandas
assert pandas is not report.pd and pandas.isna(None)
print("loaded:")
"""
    _python(code.replace("{src!r}", repr(str(PROJECT / "src"))), cwd=PROJECT)


def test_heavy_packages_are_seen_when_imported(tmp_path: Path) -> None:
    """The policy sees a heavy package that a parse brings."""
    planted = tmp_path / "planted.smk"
    planted.write_text("import matplotlib\n" + TRIVIAL)

    assert "matplotlib" in heavy(_planned(planted, cwd=tmp_path))
    assert heavy(_imported_by("matplotlib", tmp_path)) >= {"matplotlib", "numpy"}
