"""A script reads the contract, finishes once, and tells how far it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from quantgrid import CONTRACT_VERSION, contract
from quantgrid.cell import Cell, Progress, say
from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest_bytes


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A contract as the runner writes it."""
    folders = {contract.OUT: "out", contract.STATE: "state", contract.WORK: "."}
    files = {
        contract.SPEC: "spec.json",
        contract.PARENTS: "parents.json",
        contract.RESULT: "result.json",
        contract.PROGRESS: "progress.json",
        contract.METRICS: "metrics.jsonl",
    }
    (tmp_path / "out").mkdir()
    (tmp_path / "spec.json").write_text('{"a": [1, 2.5]}')
    (tmp_path / "parents.json").write_text('{"base": {"w": "/archive/blobs/1"}}')
    said = {variable.name: variable.example for variable in contract.TABLE}
    said |= {name: str(tmp_path / path) for name, path in {**folders, **files}.items()}
    return said | {contract.FINGERPRINT: "f" * 64, contract.CORPUS: "", contract.SENTINEL: ""}


def test_cell_knows_what_is_asked_when_under_the_contract(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Ids, spec, parents and folders come as they were written."""
    cell = Cell.from_environment({**environment, contract.CORPUS: "/v/c", contract.SENTINEL: "/s"})

    assert (cell.id, cell.stage) == ("n0-t800k-s0/none", "cooldown")
    assert cell.spec == {"a": [1, 2.5]}
    assert cell.parents == {"base": {"w": Path("/archive/blobs/1")}}
    assert cell.sealed_corpus() == (Path("/v/c"), Path("/s"))
    assert (cell.out, cell.threads, cell.device) == (tmp_path / "out", 1, "cpu")


def test_cell_sees_files_of_a_folder_when_this_process_made_the_parent(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A parent that an earlier stage of the job made is read when it is there."""
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights").touch()
    (tmp_path / "parents.json").write_text(json.dumps({"weights": {"": str(made)}}))

    assert Cell.from_environment(environment).parents == {"weights": {"weights": made / "weights"}}


@pytest.mark.parametrize("name", [variable.name for variable in contract.TABLE])
def test_cell_refuses_when_a_variable_is_missing(environment: dict[str, str], name: str) -> None:
    """A script that was started by hand is told which variables it misses, and what to do."""
    del environment[name]

    with pytest.raises(ConfigRefusal, match=f"misses {name}.*quantgrid run"):
        Cell.from_environment(environment)


def test_cell_refuses_when_the_runner_speaks_another_contract(environment: dict[str, str]) -> None:
    """A version that this script does not know is not guessed at."""
    environment[contract.CONTRACT] = str(CONTRACT_VERSION + 1)

    with pytest.raises(ConfigRefusal, match=f"expected {CONTRACT_VERSION}; seen"):
        Cell.from_environment(environment)


def test_cell_refuses_when_its_corpus_was_not_given(environment: dict[str, str]) -> None:
    """A stage that reads a corpus and got none says so."""
    with pytest.raises(ConfigRefusal, match="reads a corpus and was given none"):
        Cell.from_environment(environment).sealed_corpus()


def _finished(environment: Mapping[str, str]) -> dict[str, Any]:
    finished: dict[str, Any] = json.loads(Path(environment[contract.RESULT]).read_bytes())
    return finished


def test_finish_names_every_file_when_the_script_is_done(environment: dict[str, str]) -> None:
    """Files with digest and size, results, receipt, environment and what it cost."""
    cell = Cell.from_environment(environment)
    (cell.out / "w").write_bytes(b"weights")
    (cell.out / "w.qgpart-h@1@00").write_bytes(b"half")

    cell.finish({"loss": 1.5}, receipt={"manifest": "m"}, environment={"device": "cpu"})

    said = _finished(environment)
    assert said["files"] == {"w": {"sha256": digest_bytes(b"weights"), "size_bytes": 7}}
    assert (said["results"], said["receipt"]) == ({"loss": 1.5}, {"manifest": "m"})
    assert (said["fingerprint"], said["environment"]) == ("f" * 64, {"device": "cpu"})
    assert said["wall_s"] >= 0
    assert said["cpu_s"] >= 0


@pytest.mark.parametrize("results", [{"loss": float("nan")}, {"loss": Path()}])
def test_finish_writes_nothing_when_a_result_has_no_json(
    environment: dict[str, str], results: dict[str, object]
) -> None:
    """NaN is never a result."""
    with pytest.raises((ValueError, TypeError)):
        Cell.from_environment(environment).finish(results)
    assert not Path(environment[contract.RESULT]).exists()


# -- progress -------------------------------------------------------------------------------------


def _told(environment: Mapping[str, str]) -> dict[str, Any] | None:
    path = Path(environment[contract.PROGRESS])
    return json.loads(path.read_bytes()) if path.exists() else None


def test_progress_tells_step_loss_and_time_left_when_due(environment: dict[str, str]) -> None:
    """A person sees what, how far, how fast and how long."""
    progress = Progress(Cell.from_environment(environment), num_steps=20, every_s=0)
    progress.step(10)
    progress.step(15, tokens=1000, loss=2.5)

    told = _told(environment)
    assert told is not None
    assert (told["cell"], told["stage"]) == ("n0-t800k-s0/none", "cooldown")
    assert (told["step"], told["steps"], told["loss"]) == (15, 20, 2.5)
    assert told["tokens_per_s"] > 0
    assert told["left_s"] >= 0


def test_progress_tells_what_the_probe_measured_for_such_a_training(
    environment: dict[str, str],
) -> None:
    """Of its model and method, or of its model."""
    spec = {"trunk": {"model": {"name": "n0"}}}
    watch = {"tokens_per_s": {"n0": 5.0, "n0-qat": 3.0}}
    cell = Cell.from_environment(environment)._replace(spec=spec, watch=watch)

    Progress(cell, num_steps=2, every_s=0).step(1)

    told = _told(environment)
    assert told is not None
    assert told["probed_per_s"] == 5.0
    assert cell._replace(spec=spec | {"form": {"method": "qat"}}).probed_per_s == 3.0


def test_progress_is_seldom_but_the_last_step_is_told(environment: dict[str, str]) -> None:
    """Between two reports there is time; the end is always reported."""
    progress = Progress(Cell.from_environment(environment), num_steps=3, every_s=3600)
    progress.step(1)
    progress.step(2)
    assert _told(environment) is None

    progress.step(3)
    told = _told(environment)
    assert told is not None
    assert told["step"] == 3


def test_progress_never_stops_the_work_when_it_cannot_be_written(
    environment: dict[str, str],
) -> None:
    """It is for eyes."""
    environment[contract.PROGRESS] = "/nowhere/at/all.json"

    Progress(Cell.from_environment(environment), num_steps=1, every_s=0).step(1)

    assert _told(environment) is None


def test_say_writes_one_line_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The log of a cell is standard error."""
    say("step 3")

    assert capsys.readouterr() == ("", "step 3\n")
