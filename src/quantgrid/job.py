"""What one Snakemake job asks of the runner: stages, each with what makes it the same.

Here and in all that `quantgrid run` imports, values are named tuples: it starts once per job, and
importing `dataclasses` costs as much CPU as an interpreter.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import canonical


class Stage(NamedTuple):
    """One script to run and the record it makes.

    `parents` maps a role to the key of a record whose files the script gets.  `resume` lists keys
    of earlier milestones of the same trunk, newest first: the first one that the archive holds
    joins the parents as `milestone`; none is needed.
    """

    name: str
    kind: str
    record: str
    fingerprint: str
    science: str
    spec: Mapping[str, Any]
    parents: Mapping[str, str]
    resume: tuple[str, ...] = ()


class Job(NamedTuple):
    """The stages of one cell or milestone, in order; a stage may have an earlier one as parent."""

    cell: str
    seed: int
    corpus: str
    recipe: str
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Stage:
        """The stage whose record the job's receipt names."""
        return self.stages[-1]

    def to_json(self) -> str:
        """Canonical JSON, as it stands on the runner's command line."""
        return canonical({**self._asdict(), "stages": [each._asdict() for each in self.stages]})

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Read a job.

        Raises:
            ConfigRefusal: when it is not a job.
        """
        try:
            fields = json.loads(text)
            stages = tuple(
                Stage(**{**stage, "resume": tuple(stage["resume"])}) for stage in fields["stages"]
            )
            job = cls(**{**fields, "stages": stages})
            job.last  # noqa: B018 - a job without stages is none
            return job
        except (LookupError, ValueError, TypeError) as error:
            raise ConfigRefusal(
                "this is not a job", expected="the JSON of quantgrid.job", seen=text[:80]
            ) from error
