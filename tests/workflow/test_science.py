"""The real science through the real workflow, on a grid that is far too small to mean anything."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from working_copy import NONE, QAT, WorkingCopy, grid_file, lay

BASE = "n0-t20k-s0"
GPTQ = f"{BASE}/gptq-w3g32-noclip"
ROUNDED = "{method: gptq, bits: 3, group: 32, scale: noclip}"
GRID = grid_file(NONE, ROUNDED, QAT).replace("[20_000]", "[20_000, 40_000]")
"""Each script on two bases of one trunk; `make nightly` trains all 14 cells of the real smoke."""
CELLS = 6
LONG = pytest.mark.nightly
"""Further cases of a guard: each is a run with real science, and falls where the first does."""


@pytest.fixture(scope="module")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> WorkingCopy:
    copy = lay(tmp_path_factory.mktemp("trained") / "copy", light=False)
    (copy / "config/grids/smoke.yaml").write_text(GRID)
    copy.snakemake()
    return copy


@pytest.fixture
def trained(_trained: WorkingCopy, tmp_path: Path) -> WorkingCopy:
    """A working copy whose grid was really trained, for this test alone."""
    return _trained.copy(tmp_path / "copy")


def result(copy: WorkingCopy, cell: str) -> dict[str, Any]:
    """The record of a cell."""
    record: dict[str, Any] = json.loads((copy / f"results/{cell}/result.json").read_bytes())
    return record


def computed(copy: WorkingCopy, cell: str) -> list[Any]:
    """What a cell computed: losses, sizes, digests of its weights."""
    record = result(copy, cell)
    return [record["results"], record["weights"]["results"], record["weights"]["blobs"]]


def forget(copy: WorkingCopy, *keys: str) -> None:
    """Remove records, and every receipt and result, so that only the archive tells what exists."""
    for key in keys:
        shutil.rmtree(copy / "archive" / key)
    shutil.rmtree(copy / "results")
    for kind in ("cell", "trunk"):
        shutil.rmtree(copy / "receipts" / kind)


def test_record_is_complete_when_a_cell_was_trained(trained: WorkingCopy) -> None:
    """A result tells losses per sequence, sizes, receipt, links and where it was computed."""
    record = result(trained, f"{BASE}/none")

    losses = record["results"]["validation"]["losses"]
    assert len(losses) == 16
    assert record["results"]["loss"] == pytest.approx(sum(losses) / len(losses))
    receipt = record["weights"]["receipt"]
    assert sum(receipt["shards"].values()) > 0
    assert receipt["unique_tokens"] >= sum(receipt["shards"].values())
    assert record["weights"]["results"]["size"]["quantised_weights"] == 0
    assert record["links"][0]["exit_code"] == 0
    assert record["platform"]["packages"]["torch"].startswith("2.13.0")


def test_table_has_every_cell_when_the_grid_is_complete(trained: WorkingCopy) -> None:
    """One row a cell, and a page."""
    assert len((trained / "results/smoke.csv").read_text().splitlines()) == CELLS + 1
    assert (trained / "results/smoke.html").stat().st_size > 10_000


def test_numbers_are_the_same_when_one_cell_is_made_again_cold(trained: WorkingCopy) -> None:
    """A quantised form made by an interpreter of its own equals the one of a warm interpreter."""
    before = computed(trained, GPTQ)
    forget(trained, f"cells/{GPTQ}", f"weights/{GPTQ}")

    trained.snakemake(f"results/{GPTQ}/result.json")

    assert computed(trained, GPTQ) == before


def test_numbers_are_the_same_when_a_trunk_goes_on_from_its_milestone(
    trained: WorkingCopy,
) -> None:
    """The later milestone, made again from the earlier one, is the same to the bit."""
    (later,) = (trained / "archive/trunks/n0-s0").glob("32768/*/record.json")
    before = json.loads(later.read_bytes())["blobs"]
    forget(trained, "trunks/n0-s0/32768", "weights/n0-t40k-s0", "cells/n0-t40k-s0")

    trained.snakemake("results/n0-t40k-s0/none/result.json")

    (again,) = (trained / "archive/trunks/n0-s0").glob("32768/*/record.json")
    assert json.loads(again.read_bytes())["blobs"] == before


@LONG  # a training that goes on anywhere is the property of test_resume_properties
def test_numbers_are_the_same_when_a_trunk_starts_over(trained: WorkingCopy) -> None:
    """A milestone trained in one go equals one trained over an earlier milestone."""
    (later,) = (trained / "archive/trunks/n0-s0").glob("32768/*/record.json")
    before = json.loads(later.read_bytes())["blobs"]
    trained.edit("config/grids/smoke.yaml", "[20_000, 40_000]", "[40_000]")
    forget(trained, "trunks/n0-s0", "weights/n0-t40k-s0", "cells/n0-t40k-s0")

    trained.snakemake("results/n0-t40k-s0/none/result.json")

    (again,) = (trained / "archive/trunks/n0-s0").glob("32768/*/record.json")
    assert json.loads(again.read_bytes())["blobs"] == before


@pytest.mark.parametrize(
    "module",
    [
        "methods/gptq.py",
        pytest.param("evaluation.py", marks=LONG),
        pytest.param("text.py", marks=LONG),
    ],
)
def test_science_of_this_copy_runs_when_another_one_is_installed(
    trained: WorkingCopy, module: str
) -> None:
    """What is fingerprinted is what runs: the modules beside the scripts, not the installed."""
    source = trained / "src/quantlm" / module
    source.write_text(source.read_text() + "\n\nraise RuntimeError('this very copy')\n")
    shutil.rmtree(trained / "receipts/corpus")
    target = f"results/{GPTQ}/result.json" if module != "text.py" else "corpus"

    seen = trained.snakemake(target, code=1)

    assert "RuntimeError: this very copy" in seen.text


def corpus_of(copy: WorkingCopy) -> Path:
    """The folder of the corpus on the volume."""
    (folder,) = (copy / "volume/corpora").iterdir()
    return folder


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        pytest.param(
            lambda folder: (folder / "shard-00007.npy").unlink(), "shard-00007.npy", marks=LONG
        ),
        (lambda folder: [flip(path) for path in folder.glob("shard-*.npy")], "sha256"),
        pytest.param(
            lambda folder: (folder / "shard-00099.npy").write_bytes(b"more"),
            "shard-00099.npy",
            marks=LONG,
        ),
        pytest.param(lambda folder: flip(folder / "manifest.json"), "manifest", marks=LONG),
    ],
    ids=["missing", "flipped", "extra", "manifest"],
)
def test_job_is_refused_when_the_corpus_is_not_the_sealed_one(
    trained: WorkingCopy, damage: Any, seen: str
) -> None:
    """Exit code 78, one sentence with what was seen, no record, nothing half-written."""
    forget(trained, "trunks", "weights", "cells")
    damage(corpus_of(trained))

    outcome = trained.snakemake(f"results/{BASE}/none/result.json", code=1)

    assert "refused: " in outcome.text
    refusal = next(line for line in outcome.text.splitlines() if "refused: " in line)
    assert seen in refusal
    assert "expected" in refusal
    assert not list((trained / "archive").rglob("record.json"))
    assert not list(trained.root.rglob("*.qgpart-*"))
    assert not (trained / "results").exists()


def test_grid_runs_again_when_the_corpus_is_prepared_anew(trained: WorkingCopy) -> None:
    """The way on that the refusal names works, and gives the same numbers."""
    before = computed(trained, f"{BASE}/none")
    forget(trained, "trunks", "weights", "cells")
    flip(corpus_of(trained) / "shard-00007.npy")
    target = f"results/{BASE}/none/result.json"

    trained.snakemake(target, "--forcerun", "prepare")

    assert computed(trained, f"{BASE}/none") == before
