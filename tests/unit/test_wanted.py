"""What a table must say of a cell, read from what lies beside the results."""

from pathlib import Path

import pytest

from quantgrid import atomic, layout
from quantgrid.verdicts import UNJUDGED
from quantgrid.wanted import local_verdicts

BASE, FORM = "n0-t20k-s0/none", "n0-t20k-s0/rtn"
CELLS = {BASE: "a" * 64, FORM: "b" * 64}


def judge(root: Path, cell: str, **told: object) -> None:
    """A verdict beside a result."""
    base, variant = cell.split("/")
    path = root / layout.VERDICT.format(base=base, variant=variant)
    atomic.publish_json(path, {"fingerprint": CELLS[cell], **told})


@pytest.mark.parametrize(
    ("base", "form", "counts"),
    [
        ("VALID", "VALID", "VALID"),
        ("SUSPECT", "VALID", "SUSPECT"),
        ("VALID", "INVALID", "INVALID"),
        ("SUSPECT", "INVALID", "INVALID"),
    ],
)
def test_form_is_as_bad_as_its_base_in_a_table(
    tmp_path: Path, base: str, form: str, counts: str
) -> None:
    """The worse of both counts for the form; the base stands for itself."""
    judge(tmp_path, BASE, verdict=base)
    judge(tmp_path, FORM, verdict=form)

    assert local_verdicts(tmp_path, CELLS) == {BASE: base, FORM: counts}


@pytest.mark.parametrize("told", [{"verdict": "VALID", "fingerprint": "c" * 64}, {"verdict": "A"}])
def test_verdict_on_something_else_counts_for_nothing(tmp_path: Path, told: dict[str, str]) -> None:
    """One on another fingerprint, or a word that no judge says."""
    judge(tmp_path, BASE, **told)

    assert local_verdicts(tmp_path, {BASE: CELLS[BASE]}) == {BASE: UNJUDGED}
