"""A job survives the command line unchanged, or is refused."""

import json

import pytest

from core_parts import cell_job
from quantgrid.errors import ConfigRefusal
from quantgrid.job import Job


def test_job_comes_back_when_it_was_written() -> None:
    """JSON and back is the same job, with what it may resume from."""
    job = cell_job()
    first = job.stages[0]._replace(resume=("trunks/a/1/f/record.json",))
    whole = job._replace(stages=(first, job.last))

    assert Job.from_json(whole.to_json()) == whole
    assert whole.last is job.last


def test_job_has_one_text_when_equal() -> None:
    """Snakemake compares params as text: the order of keys is no difference."""
    shuffled = json.dumps(dict(reversed(json.loads(cell_job().to_json()).items())))

    assert Job.from_json(shuffled).to_json() == cell_job().to_json()


def _changed(**changes: object) -> str:
    return json.dumps({**json.loads(cell_job().to_json()), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "7",
        _changed(stages=[]),
        _changed(stages=None),
        _changed(stages=[1]),
        _changed(stages=[{}]),
        _changed(more=1),
        cell_job().to_json()[:-1],
        cell_job().to_json().replace('"resume"', '"resumes"'),
    ],
)
def test_job_is_refused_when_it_is_none(text: str) -> None:
    """What is not a job is refused with its beginning, not with a traceback."""
    with pytest.raises(ConfigRefusal, match="this is not a job"):
        Job.from_json(text)
