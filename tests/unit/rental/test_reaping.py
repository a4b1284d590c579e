"""Reaping is reluctant: only ours, only unwanted, only silent (CP 4.19)."""

from typing import Any

import pytest

from quantgrid.rental.lease import Lease, Phase, Signs
from quantgrid.rental.port import Machine, MachineState, Name
from quantgrid.rental.reaping import SILENT_S, findings

OWNER, A, NONCE = "0a1b2c3d", "a" * 64, "1" * 12
NAME = Name(OWNER, A[:12], 2, NONCE)
LIVE = Lease(A, "n0/rtn", "paper", "memory", "lab", Phase.RUNNING, attempt=2, nonce=NONCE)
LIVE = LIVE._replace(deadline_s=1000.0)


def verdicts(
    name: object, lease: Lease | None, beat_age_s: float | None, now_s: float
) -> list[bool]:
    """Whether each machine that is named may be reaped."""
    machine = Machine("m1", str(name), MachineState.RUNNING, is_billing=True)
    signs = {NONCE: Signs(beat_age_s=beat_age_s), "2" * 12: Signs(beat_age_s=beat_age_s)}
    leases = {A: lease} if lease else {}
    return [f.is_reapable for f in findings([machine], OWNER, leases, signs, now_s)]


@pytest.mark.parametrize("foreign", ["trainer", f"x{NAME}", NAME._replace(owner="f" * 8)])
def test_foreign_machine_is_not_named_when_an_account_shows_it(foreign: object) -> None:
    """What is not ours by name and owner is nobody's business here."""
    assert verdicts(foreign, None, None, 0.0) == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (NAME, {"phase": Phase.SUCCESS}),
        (NAME, {"phase": Phase.PLANNED}),
        (NAME._replace(nonce="2" * 12, attempt=1), {}),
        (NAME, {"deadline_s": -SILENT_S - 1}),
        (NAME, None),
    ],
)
def test_machine_is_reapable_when_unwanted_and_silent(
    name: Name, changes: dict[str, Any] | None
) -> None:
    """Each way to be unwanted, and for each a beat that protects it."""
    lease = None if changes is None else LIVE._replace(**changes)

    assert verdicts(name, lease, None, 0.0) == [True]
    assert verdicts(name, lease, SILENT_S + 1, 0.0) == [True]
    assert verdicts(name, lease, SILENT_S, 0.0) == [False]


@pytest.mark.parametrize("phase", [p for p in Phase if not p.is_over and p is not Phase.PLANNED])
def test_machine_stays_when_its_lease_wants_it(phase: Phase) -> None:
    """A lease protects its machine in every phase, even a silent one, until its deadline."""
    assert verdicts(NAME, LIVE._replace(phase=phase), None, 1000.0) == [False]


def test_machine_stays_when_its_lease_was_written_after_the_look() -> None:
    """A machine that is newer than what was read is not judged."""
    assert verdicts(NAME._replace(attempt=3, nonce="2" * 12), LIVE, None, 0.0) == [False]
