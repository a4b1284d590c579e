"""What failed for all cells together is read from what is missing and what its log says last."""

import os
from pathlib import Path

import pytest

from quantgrid import common_jobs
from quantgrid.common_jobs import CommonJob

FIRST, SECOND = (
    CommonJob("text", "prepare", "made/a.json"),
    CommonJob("text", "seal", "made/b.json"),
)
REFUSED = "refused: a shard is short. Make it again."


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A working copy in which the first job is done and the second one was refused."""
    write(tmp_path / FIRST.product, "{}")
    write(tmp_path / SECOND.log, f"reading\n{REFUSED}\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    """A file in its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(copy: Path) -> tuple[CommonJob, str] | None:
    """The first error of both jobs."""
    return common_jobs.first_error(iter((FIRST, SECOND)), copy)


def test_job_is_named_with_its_own_words_when_it_failed(copy: Path) -> None:
    """Its product is missing, and its log ends in a sentence."""
    assert found(copy) == (SECOND, REFUSED)


def test_job_is_not_named_when_it_is_done_was_stopped_or_never_ran(copy: Path) -> None:
    """A product counts more than a log; who was stopped did not fail."""
    write(copy / SECOND.product, "{}")
    assert found(copy) is None
    (copy / SECOND.product).unlink()
    write(copy / SECOND.log, f"{REFUSED}\ninterrupted: nothing half-written was published.\n")
    assert found(copy) is None
    write(copy / SECOND.log, "sealed text: 9 shards\n")
    assert found(copy) is None
    (copy / SECOND.log).unlink()
    assert found(copy) is None


def test_job_is_not_named_when_its_log_is_of_a_time_before(copy: Path) -> None:
    """What was refused then has been made anew since, and nobody has looked at it again."""
    os.utime(copy / SECOND.log, (1, 1))

    assert found(copy) is None


def test_job_is_not_named_when_an_earlier_one_did_not_end(copy: Path) -> None:
    """It only waited."""
    (copy / FIRST.product).unlink()

    assert found(copy) is None
