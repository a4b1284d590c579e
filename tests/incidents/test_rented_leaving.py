"""Somebody left, and the jobs went on for ever; or stayed, and they did not end.

Incident: Ctrl-C ended jobs that were meant to go on, or left jobs alone that were meant to end, and
no later call found them (snakemake-executor-plugin-slurm 397, snakemake 3670 and 3438; CP 4: 30).

Guards: `quantgrid.rental.executor.RentedExecutor.cancel_jobs` leaves machines alone and says how to
come back, and `quantgrid.rental.clearing.end_leases` ends all of a working copy, those that appear
meanwhile too, until two rounds in a row show none.
"""

import signal
from pathlib import Path

from detached import await_true
from rented_copy import RATES, Gate, RentedCopy


def is_alive(pid: int) -> bool:
    """Whether a process computes."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_ctrl_c_leaves_the_machines_and_the_same_call_comes_back(
    place: RentedCopy, gate: Gate
) -> None:
    """CP 4.30: a person reads that they go on and how to end them; nothing is started twice."""
    with place.running() as controller:
        gate.await_starts(2)
        controller.send_signal(signal.SIGINT)
        said, _ = controller.communicate(timeout=180)
    assert "which go on and cost money" in said
    assert "`quantgrid stop` ends them" in said
    assert all(map(is_alive, gate.pids()))
    assert len(place.double.billing()) == 2

    with place.running() as controller:
        assert controller.stdout is not None
        planned = next(line for line in controller.stdout if line.startswith("plan waiting"))
        assert "make 3" in planned  # none is left to somebody else: its machine is ours
        assert "held elsewhere" not in planned
        gate.open()
        said, _ = controller.communicate(timeout=200)
        assert controller.returncode == 0, said
    assert gate.starts() == dict.fromkeys(map(str, RATES), 1)
    place.assert_paid()


def test_stop_ends_all_and_confirms_it_in_the_middle_of_a_round(
    place: RentedCopy, gate: Gate
) -> None:
    """CP 4.30: the controller, its machines and their programs are gone, and paid for."""
    calls = place.double.folder / "calls.jsonl"
    with place.running() as controller:
        gate.await_starts(2)
        place.double.fault("machines", 1, "delay", 4.0)
        await_true(lambda: '"fault": "delay"' in calls.read_text(), otherwise="no round began")
        said = place.quantgrid("stop", "--now")
        assert controller.wait(180) != 0

    assert "Every machine of this working copy is gone" in said.text
    assert not any(map(is_alive, gate.pids()))
    place.assert_paid()
    assert "No controller runs" in place.quantgrid("stop").text


def test_stop_ends_a_coordinator_with_the_machines_that_it_rents(
    place: RentedCopy, gate: Gate
) -> None:
    """CP 4.30: from the laptop, with the coordinator in the middle of its grid."""
    place.quantgrid("launch", "--on", "plain")
    gate.await_starts(2)

    place.quantgrid("stop")

    assert not any(map(is_alive, gate.pids()))
    place.assert_paid()
