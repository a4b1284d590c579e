"""A grid whose archive is a bucket: run here, restored there, stopped when it is out of reach."""

import os
from pathlib import Path

import pytest

from quantgrid import ledger
from s3_proxy import proxy
from s3_server import Server
from working_copy import FEW, WorkingCopy, aim, lay, table

pytestmark = pytest.mark.timeout(900)  # of several runs of a grid, each job with a bucket


def _restore(first: WorkingCopy, grid: str, count: int, address: str, root: Path) -> WorkingCopy:
    """Restore a grid in an empty clone by one fold, as it is in the first."""
    second = lay(root, light=True)
    aim(second, address)
    assert f"restore {count}, make 0" in second.look(grid=grid).plan
    folded = second.quantgrid("archive", "fold", "--grid", grid)
    assert f"folded {count} results" in folded.text
    assert set(second.look(grid=grid).jobs) <= {"table", "report"}
    second.snakemake(table(grid), grid=grid)
    assert (second / table(grid)).read_bytes() == (first / table(grid)).read_bytes()
    assert len(ledger.read(second / "ledger.csv")) == count
    return second


def test_grid_moves_to_a_bucket_and_is_refused_when_that_is_out_of_reach(
    few: WorkingCopy, s3_address: str
) -> None:
    """A copy in a real server is the same archive, whole; then it cannot be reached."""
    few.quantgrid("archive", "copy", s3_address)
    aim(few, s3_address)
    assert "3 current, restore 0, make 0" in few.look(grid=FEW).plan
    few.quantgrid("archive", "verify")

    place = s3_address.partition("?")[0]
    aim(few, f"{place}?endpoint_url=http://127.0.0.1:9")
    for outcome in (few.look(grid=FEW, code=71), few.snakemake(grid=FEW, code=71)):
        assert "the store does not answer" in outcome.text
        assert "plan " not in outcome.text
        assert outcome.jobs == {}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("grid", "count"),
    [(FEW, 3), pytest.param("demo", 105, marks=pytest.mark.nightly)],
)
def test_grid_in_a_bucket_is_run_and_restored(
    s3_address: str, tmp_path: Path, grid: str, count: int
) -> None:
    """Every job deposits into a real server."""
    first = lay(tmp_path / "first", light=True)
    aim(first, s3_address)
    first.snakemake(table(grid), grid=grid, timeout_s=3000)
    assert f"{count} current" in first.look(grid=grid).plan
    _restore(first, grid, count, s3_address, tmp_path / "second")


def test_bucket_is_refused_when_it_is_the_twin_of_another(
    few: WorkingCopy, sealed: WorkingCopy, seaweed: Server, credentials: None, tmp_path: Path
) -> None:
    """Two buckets of one name at two endpoints, each refused where the other is meant."""
    copy = lay(tmp_path / "mine", light=True, sealed=sealed)
    first = seaweed.address("shared", f"twin-{os.urandom(4).hex()}")
    other = seaweed.address("shared", f"twin-{os.urandom(4).hex()}")
    aim(copy, first)
    copy.snakemake("results/n0-t20k-s0/none/result.json", grid=FEW)
    few.quantgrid("archive", "copy", other)

    for mine, theirs in ((copy, other), (few, first)):
        aim(mine, theirs)
        said = mine.look(grid=FEW, code=78).text
        assert "this is not the archive that this working copy deposited into" in said
        assert "Set `archive` to the place where it is now" in said


def test_finished_cell_is_not_trained_again_when_the_listing_is_stale(
    seaweed: Server, s3_address: str, sealed: WorkingCopy, tmp_path: Path
) -> None:
    """A plan from a listing that lacks a record costs a look at the record, and no training."""
    copy = lay(tmp_path / "copy", light=True, sealed=sealed)
    result = "results/n0-t20k-s0/none/result.json"
    place = s3_address.partition("?")[0]
    with proxy(seaweed.port) as between:
        aim(copy, f"{place}?endpoint_url={between.endpoint}")
        copy.look(result)  # the proxy keeps these empty listings
        copy.snakemake(result)
        for folder in ("results", "receipts/cell", "receipts/trunk"):
            copy.call("rm", "-r", folder)
        between.plan = lambda request: "stale" if request.is_listing else ""
        for script in (copy / "scripts").glob("*.py"):
            script.write_text("raise SystemExit('a script was started')\n" + script.read_text())

        outcome = copy.snakemake(result, code=None)

    assert "a script was started" not in outcome.text
