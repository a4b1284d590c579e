"""`quantgrid leases` tells what is rented from the register alone."""

import json
from pathlib import Path

import pytest

from quantgrid.main import dispatch
from quantgrid.rental.lease import Lease, Phase
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Cost, Promise
from quantgrid.rental.tasks import Task, TaskOrder, done_key, queue_key, task_key
from quantgrid.store.folder import FolderStore
from rented_world import CANDIDATES

A = "a" * 64


@pytest.fixture
def rented(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working copy whose register has one live lease and one that ended."""
    (tmp_path / "config").symlink_to(root / "config")
    register = Register(FolderStore(tmp_path / "archive"))
    lease = Lease(A, "n0/rtn", "paper", "memory", "lab", Phase.RUNNING, attempt=1, nonce="1" * 12)
    lease = lease._replace(machine="m7", candidate=CANDIDATES[0], deadline_s=4e9)
    register.append(1, lease)
    register.append(1, lease._replace(subject="b" * 64, phase=Phase.SUCCESS))
    register.promise(Promise("1" * 12, A, "paper", 3_999_996_400, 4_000_000_000, 3_600_000))
    register.charge(Cost("2" * 12, 0, 10, 3_600_000))
    for place, name in enumerate(("n0/rtn", "n0/gptq", "n0/mxfp"), 1):
        task = Task(f"{place}" * 64, 1)
        order = TaskOrder(name, "true", "", (), (), "")
        register.store.put_once(task_key(task), order.to_bytes())
        register.store.put_once(queue_key(A, place, task), b"")
        if place == 1:
            register.store.put_once(done_key("1" * 12, task), b"{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_leases_are_shown_when_some_are_open(
    rented: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person reads cell, machine, deadline, and the three sums of the money."""
    assert dispatch(["leases"]) == 0

    line, money = capsys.readouterr().out.splitlines()
    assert line.split()[:5] == ["n0/rtn", "running", "on", "memory", "m7,"]
    assert "m7, at n0/gptq, 1 job in line, 1 job ended" in line
    assert "ends itself by 2096-10-02T07:06:40Z" in line
    assert money == (
        "1 lease; $3.60 an hour now, up to $3.60 to come, $0.01 spent, $0.01 of it by our own "
        "measure until it is billed."
    )


def test_leases_are_data_when_a_program_asks(
    rented: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has the same facts, and ended leases when asked."""
    assert dispatch(["leases", "--all", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert [each["phase"] for each in shown["leases"]] == ["running", "success"]
    assert shown["spent_microusd"] == 10_000
    assert shown["promised_microusd"] == 3_600_000
