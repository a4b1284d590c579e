"""Programs of their own are cells like all others: planned, made, folded, shown, resumed."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from killing import Killer
from own_parts import PROJECT, wait_until
from quantgrid import layout
from working_copy import WorkingCopy, lay, table

GRID = "mine"
CELLS_ONLY = table(GRID)
"""What is asked for where the page is not the point."""
MODELS = {
    "models": ["n0"],
    "tokens": [20_000],
    "seeds": [0],
    "forms": [{"method": "none"}, {"method": "rtn", "bits": 4, "group": "row", "scale": "noclip"}],
}
TIMES = ("wall_s", "cpu_s", "platform", "device")


def shipped(block: str) -> dict[str, object]:
    """A block of the grid that is shipped as an example."""
    path = layout.section_file(PROJECT, "grid", "own")
    found: dict[str, object] = yaml.safe_load(path.read_text())["blocks"][block]
    return found


def laid(root: Path, *, light: bool = True, **top: object) -> WorkingCopy:
    """A fresh working copy with the examples and one grid."""
    copy = lay(root, light=light)
    ignored = shutil.ignore_patterns("__pycache__", "runs", "checkpoint.json", "log.txt")
    shutil.copytree(PROJECT / "examples", root / "examples", ignore=ignored)
    path = layout.section_file(root, "grid", GRID)
    path.write_text(yaml.safe_dump(top, sort_keys=False))
    return copy


def rows(copy: WorkingCopy) -> list[dict[str, str]]:
    """The table without what differs from run to run."""
    with (copy / f"results/{GRID}.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


def line(**axes: list[float]) -> dict[str, object]:
    """The shipped example, with other axes."""
    return {**shipped("line"), "axes": axes}


def slow_line() -> dict[str, object]:
    """Two cells of the shipped example that take their time; the script has an option for it."""
    block = line(lr=[0.02], steps=[40])
    return {**block, "arguments": f"{block['arguments']} --pause 0.05"}


def test_own_cells_reach_table_and_page_when_the_grid_is_run(tmp_path: Path) -> None:
    """Axes and results are columns; what is done is not done again; a part can be chosen."""
    copy = laid(tmp_path, blocks={"line": line(lr=[0.02, 0.1], steps=[30])})

    seen = copy.look(grid=GRID)
    assert (seen.jobs["own"], seen.jobs["fold"]) == (4, 4)
    chosen = copy.quantgrid("cells", "--grid", GRID, "--select", "lr<0.05 and seed=1", "--targets")
    assert chosen.text.split() == ["results/line-lr0p02-steps30-s1/own/result.json"]
    copy.snakemake(grid=GRID)

    shown = rows(copy)
    assert [row["cell"] for row in shown] == [
        f"line-lr{lr}-steps30-s{seed}/own" for lr in ("0p02", "0p1") for seed in (0, 1)
    ]
    assert [(row["lr"], row["steps"], row["seed"]) for row in shown][1] == ("0.02", "30", "1")
    assert all(0 < float(row["loss"]) < 3 for row in shown)
    page = (copy / f"results/{GRID}.html").read_text()
    assert page.count("steps30") >= 4
    assert "Published laws" not in page
    assert copy.look(grid=GRID).jobs == {}
    assert len(list((copy / "archive").rglob("blobs/*"))) == 4


def test_own_cells_are_restored_and_staled_when_files_change(tmp_path: Path) -> None:
    """The archive restores a lost result; another code makes the cell stale and is made anew."""
    copy = laid(tmp_path, blocks={"line": line(lr=[0.1], steps=[5])})
    copy.snakemake(CELLS_ONLY, grid=GRID)
    shutil.rmtree(copy / "results")
    assert "restore 2, make 0" in copy.look(grid=GRID).plan

    copy.edit("examples/own/train.py", "size=8", "size=16")
    assert "make 2, stale 2" in copy.look(grid=GRID).plan


def test_grid_shows_both_when_models_and_programs_are_declared(tmp_path: Path) -> None:
    """One table and one page hold models with their forms, and programs after them."""
    copy = laid(
        tmp_path,
        corpus="shakespeare",
        evaluation={"sequences": 16},
        blocks={"main": MODELS, "line": line(lr=[0.1], steps=[5])},
    )

    copy.snakemake(grid=GRID)

    shown = rows(copy)
    assert [row["method"] for row in shown] == ["none", "rtn", "", ""]
    assert [row["lr"] for row in shown] == ["", "", "0.1", "0.1"]
    assert all(row["loss"] for row in shown)
    page = (copy / f"results/{GRID}.html").read_text()
    assert "Programs of their own" in page
    assert "line-lr0p1-steps5-s1" in page
    assert copy.look(grid=GRID).jobs == {}


def test_program_reads_the_sealed_corpus_when_it_asks_for_it(tmp_path: Path) -> None:
    """Every shard is verified first, and the receipt is in the record."""
    script = tmp_path / "examples" / "count.py"
    block = {
        "script": "examples/count.py",
        "arguments": "{corpus}",
        "corpus": True,
        "results": {"stdout": r"shards (?P<shards>\d+)"},
    }
    copy = laid(tmp_path, corpus="shakespeare", blocks={"count": block})
    script.write_text(
        "import pathlib, sys\n"
        "print('shards', len(list(pathlib.Path(sys.argv[1]).glob('shard-*.npy'))))\n"
    )

    copy.snakemake("results/count-s0/own/result.json", grid=GRID)

    record = json.loads((copy / "results/count-s0/own/result.json").read_text())
    assert record["results"]["shards"] == record["receipt"]["verified_shards"] > 1
    assert record["corpus"]["manifest"] == record["receipt"]["manifest"]


def test_guide_is_right_when_its_commands_are_typed(tmp_path: Path) -> None:
    """Each command of the guide does what the guide says, on the grid that is shipped."""
    guide = (PROJECT / "docs" / "guides" / "your-own-script.md").read_text()
    listing, computing = re.findall(r"```[a-z ]*\n(.*?)```", guide, re.DOTALL)[0].splitlines()
    copy = laid(tmp_path, blocks={"line": shipped("line")})

    cells = copy.call(*_python(listing)).text.split()
    copy.call(*_python(computing.replace("--profile local", "--profile profiles/local")))

    assert len(cells) == 6
    found = sorted(p.parts[-3] for p in (copy / "results").glob("*/own/result.json"))
    assert found == sorted(c.partition("/")[0] for c in cells if c.startswith("line-"))


def _python(command: str) -> list[str]:
    program, *rest = shlex.split(command)
    return [sys.executable, "-m", program, *rest]


# -- interrupted -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The table of the slow line without any disturbance."""
    copy = laid(tmp_path_factory.mktemp("calm") / "copy", blocks={"line": slow_line()})
    copy.snakemake(CELLS_ONLY, grid=GRID)
    return rows(copy)


def test_results_are_equal_when_everything_is_killed_at_checkpoints(
    tmp_path: Path, calm: list[dict[str, str]]
) -> None:
    """SIGKILL of controller, runner and program, twice; then the same command again."""
    copy = laid(tmp_path / "copy", blocks={"line": slow_line()})
    killer = Killer(copy, GRID, (CELLS_ONLY,))

    assert killer.at_step("kept/1/", tmp_path / "hook")
    assert killer.at_step("kept/3/", tmp_path / "hook")
    copy.snakemake(CELLS_ONLY, grid=GRID)

    assert rows(copy) == calm
    assert "going on from checkpoint" in logs(copy)


def test_results_are_equal_when_the_controller_is_interrupted(
    tmp_path: Path, calm: list[dict[str, str]]
) -> None:
    """SIGTERM to the whole group, as a batch system sends it."""
    copy = laid(tmp_path / "copy", blocks={"line": slow_line()})
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, CELLS_ONLY, "--config", f"grid={GRID}"],
            cwd=copy.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        wait_until(lambda: list((copy / "volume").rglob(layout.OWN_KEPT_LIST)), "a checkpoint")
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=180)

    assert process.returncode != 0
    copy.snakemake(CELLS_ONLY, grid=GRID)
    assert rows(copy) == calm
    assert "going on from checkpoint" in logs(copy)


def test_gpt_trainer_gives_equal_numbers_when_killed_and_resumed(tmp_path: Path) -> None:
    """A one-file trainer with argparse and its own checkpoint, never edited, bit for bit."""
    block = shipped("gpt")
    short = "--max-iters 200 --eval-interval 40 --eval-iters 2"
    block |= {"axes": {"lr": [0.003]}, "arguments": f"{block['arguments']} {short}"}
    quiet = laid(tmp_path / "quiet", blocks={"gpt": block})
    quiet.snakemake(CELLS_ONLY, grid=GRID)
    copy = laid(tmp_path / "copy", blocks={"gpt": block})

    assert Killer(copy, GRID, (CELLS_ONLY,)).at_step("kept/2/", tmp_path / "hook")
    copy.snakemake(CELLS_ONLY, grid=GRID)

    assert rows(copy) == rows(quiet)
    assert "resumed at iter" in logs(copy)


@pytest.mark.nightly
def test_results_are_equal_when_the_cap_of_the_platform_ends_links(tmp_path: Path) -> None:
    """A program that knows no cap needs two links under it, and no manual step."""
    block = {**slow_line(), "axes": {"lr": [0.02], "steps": [160]}}
    quiet = laid(tmp_path / "quiet", blocks={"line": block})
    quiet.snakemake(grid=GRID)
    copy = laid(tmp_path / "copy", blocks={"line": block})
    copy.edit("config/platforms/local.yaml", "cap_s: null", "cap_s: 7")
    copy.edit("config/platforms/local.yaml", "grace_s: 30 ", "grace_s: 1 ")

    copy.snakemake(grid=GRID)

    assert rows(copy) == rows(quiet)
    for path in (copy / "results").glob("*/own/result.json"):
        ends = [link["end"] for link in json.loads(path.read_text())["links"]]
        assert set(ends[:-1]) == {"cap"}, ends
        assert ends[-1] == "done"
    assert "going on from checkpoint" in logs(copy)


def logs(copy: WorkingCopy) -> str:
    """All logs of jobs, together."""
    return "\n".join(path.read_text() for path in (copy / "logs").rglob("*.log"))
