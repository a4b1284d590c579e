"""A rented machine from the start of its first process to its own end; real processes."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantgrid.rental import tasks
from quantgrid.rental.lease import End, Phase
from quantgrid.rental.register import sign_key
from quantgrid.rental.tasks import Task
from supervised import House, housed, until

RECEIPT = """echo '{"record": "cells/a/b/c/record.json"}' > receipts/a.json"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A platform that starts a first process again when it returned, as RunPod does."""
    with housed(tmp_path_factory.mktemp("house")) as house:
        house.packed({"hello.sh": "echo hello from $1"})
        yield house


def test_machine_does_its_queue_and_ends_itself_when_idle(house: House) -> None:
    """Two tasks in their order, files and records by digest, a verified end, one start only."""
    lease = house.lease()
    first = house.task(
        lease, f"bash scripts/hello.sh one; {RECEIPT}", 1, outputs=("receipts/a.json",)
    )
    second = house.task(lease, "bash scripts/hello.sh two; exit 7", 2)
    machine = house.launch(lease)

    ended = house.gone(machine)

    one, two = house.end(lease, first), house.end(lease, second)
    assert one is not None
    assert two is not None
    assert (one.code, two.code) == (0, 7)
    assert house.file(one, "logs/said.log") == "hello from one\n"
    assert json.loads(house.file(one, "receipts/a.json"))["record"] == "cells/a/b/c/record.json"
    assert two.sentence == "hello from two"
    assert one.started_s <= one.ended_s <= two.started_s
    record = house.exit(lease)
    assert (record.reason, record.code, record.machine) == (End.DONE, 0, machine.id)
    assert record.records == ("cells/a/b/c/record.json",)
    assert record.checkpoint == 2 * 10**12
    assert ended["starts"] == 1
    assert house.signs(lease).starts == 1


def test_machine_serves_what_comes_when_it_is_warm(house: House) -> None:
    """A task that is queued while the machine is idle is done by it."""
    lease = house.lease()
    machine = house.launch(lease, idle_s=30.0)
    until(lambda: house.signs(lease).beat_age_s is not None)

    task = house.task(lease, "echo late")

    end = until(lambda: house.end(lease, task))
    assert (end.code, end.machine) == (0, machine.id)
    house.platform.stop(machine.id)
    house.gone(machine)


def test_machine_tells_log_and_checkpoint_while_a_task_runs(house: House, tmp_path: Path) -> None:
    """What a task says so far is in the store, with secrets masked; beats carry its tokens."""
    lease, go = house.lease(), tmp_path / "go"
    link = "state/a/b/trunk.link.json"
    command = (
        f"mkdir -p $QG_VOLUME/state/a/b; echo '{{\"tokens\": 77}}' > $QG_VOLUME/{link}; "
        f"echo begun with $STORE_KEY; until [ -e {go} ]; do sleep 0.05; done; echo over"
    )
    house.double.change(secrets={"STORE_KEY": "s3cr3t-of-the-store"})
    task = house.task(lease, command, links=(link,))
    machine = house.launch(lease, secrets=("STORE_KEY",))

    until(lambda: house.signs(lease).checkpoint == 77)
    prefix = f"rental/logs/{lease.nonce}.{task.job}.000001"
    first = until(lambda: house.store.find(f"{prefix}.000000"))
    go.touch()
    house.gone(machine)

    end = house.end(lease, task)
    assert first == b"begun with [STORE_KEY]\n"
    assert house.store.find(f"{prefix}.000001") == b"over\n"
    assert end is not None
    assert house.file(end, "logs/said.log") == "begun with [STORE_KEY]\nover\n"


def test_second_start_does_nothing_when_the_machine_has_ended(house: House) -> None:
    """The run-once marker is the exit record: what a controller has concluded from stays true."""
    lease = house.lease()
    task = house.task(lease, "echo once")
    house.double.fault("stop", 1, "before")  # it cannot end itself at first
    machine = house.launch(lease)
    until(lambda: house.signs(lease).exit)
    until(lambda: "does not end yet" in house.said(machine))
    late = house.task(lease, "echo twice", 2)

    group = next(m["group"] for m in house.double.machines() if m["id"] == machine.id)
    os.kill(group, signal.SIGKILL)
    ended = house.gone(machine)

    assert ended["starts"] == 2
    assert house.end(lease, task) is not None
    assert house.end(lease, late) is None


def test_double_ends_itself_when_another_machine_has_the_claim(house: House) -> None:
    """Of two machines of one nonce the second one works at nothing and ends."""
    lease = house.lease()
    first = house.launch(lease, idle_s=60.0)
    until(lambda: house.signs(lease).claimed)

    second = house.launch(lease._replace(attempt=2), nonce=lease.nonce)
    house.gone(second)

    assert house.signs(lease).claimed == first.id
    assert house.signs(lease).exit is None
    assert house.double.billing() == [first.id]
    house.platform.stop(first.id)
    house.gone(first)


def test_machine_leaves_when_its_lease_has_another_one(house: House) -> None:
    """A machine that was given up saves, leaves and says so; its task has no end."""
    lease = house.lease()
    command = "trap 'echo saved; exit 75' TERM; echo begun; while :; do sleep 0.05; done"
    task = house.task(lease, command)
    machine = house.launch(lease)
    until(lambda: house.store.find(f"rental/logs/{lease.nonce}.{task.job}.000001.000000"))

    house.lease(subject=lease.subject)
    house.gone(machine)

    assert house.exit(lease).reason is End.LEASE_LOST
    assert house.end(lease, task) is None


def test_nothing_begins_when_the_lease_wants_no_machine(house: House) -> None:
    """A machine that comes late finds its lease ended, and ends."""
    lease = house.lease()
    task = house.task(lease, "echo never")
    newest = house.register.newest(lease.subject)
    assert newest
    house.register.append(newest.number + 1, lease._replace(phase=Phase.TERMINATING))

    machine = house.launch(lease)
    house.gone(machine)

    assert house.exit(lease).reason is End.LEASE_LOST
    assert house.end(lease, task) is None
    assert house.signs(lease).beat_age_s is None  # it knew before it worked or beat


def test_next_machine_goes_on_when_the_deadline_ended_the_first(house: House) -> None:
    """At the deadline the task saves and leaves, the exit says `cap`, the next one skips the done.

    The deadline is the store's clock, and the machine is gone by it.
    """
    lease = house.lease(life_s=15.0)
    done = house.task(
        lease, "echo one >> $QG_VOLUME/order; " + RECEIPT, 1, outputs=("receipts/a.json",)
    )
    command = (
        "if [ -e $QG_VOLUME/saved ]; then echo two >> $QG_VOLUME/order; exit 0; fi; "
        "trap 'touch $QG_VOLUME/saved; exit 75' TERM; while :; do sleep 0.05; done"
    )
    task = house.task(lease, command, 2)
    machine = house.launch(lease, grace_s=1.0)
    ended = house.gone(machine)
    first = house.exit(lease)

    second = house.lease(subject=lease.subject)
    house.gone(house.launch(second))

    assert (first.reason, first.code, first.checkpoint) == (End.CAP, 75, 10**12)
    assert ended["ended_s"] <= lease.deadline_s + 100.0
    assert house.end(lease, done) is not None
    assert house.end(second, done) is None
    end = house.end(second, task)
    assert (end and end.code) == 0
    assert (house.volume / "order").read_text() == "one\ntwo\n"
    assert house.exit(second).reason is End.DONE
    assert house.exit(second).records == ("cells/a/b/c/record.json",)


def test_machine_is_gone_by_its_deadline_when_a_task_ignores_every_signal(house: House) -> None:
    """What does not leave is killed, with all that it started."""
    lease = house.lease(life_s=10.0)
    task = house.task(lease, "trap '' TERM; setsid sleep 600 & while :; do sleep 0.05; done")
    machine = house.launch(lease, grace_s=0.3)

    ended = house.gone(machine)

    assert ended["ended_s"] <= lease.deadline_s + 100.0
    assert house.exit(lease).reason is End.CAP
    assert house.end(lease, task) is None


def test_nothing_of_a_task_is_left_when_the_next_one_begins(house: House) -> None:
    """A process that left the session of its task is ended with it; the machine serves on."""
    lease, pid = house.lease(), "$QG_VOLUME/left-over"
    first = house.task(lease, f"setsid sleep 600 & echo $! > {pid}", 1)
    state = f"$(cut -d' ' -f3 /proc/$(cat {pid})/stat)"
    second = house.task(lease, f'case "{state}" in Z|X|"") exit 0;; *) exit 1;; esac', 2)

    house.gone(house.launch(lease))

    one, two = house.end(lease, first), house.end(lease, second)
    assert (one and one.code) == 0
    assert (two and two.code) == 0


def test_task_that_hangs_ends_the_machine_when_nothing_moves(house: House) -> None:
    """No word, no checkpoint and no work for the stall: the machine ends long before its cap."""
    lease = house.lease()
    house.task(lease, "echo begun; exec sleep 600")
    machine = house.launch(lease, stall_s=1.0, grace_s=0.3)

    house.gone(machine)

    assert house.exit(lease).reason is End.STALLED


def test_silent_task_goes_on_when_it_computes(house: House) -> None:
    """A task that says nothing but uses its processor does not hang."""
    lease = house.lease()
    spin = "import time; e = time.process_time() + 1.2\nwhile time.process_time() < e: pass"
    task = house.task(lease, f'exec python -c "{spin}"')
    machine = house.launch(lease, stall_s=0.8)

    house.gone(machine)

    end = house.end(lease, task)
    assert (end and end.code) == 0


def test_task_saves_when_the_platform_takes_the_machine(house: House, tmp_path: Path) -> None:
    """SIGTERM reaches the task, which saves; the exit says `interrupted`."""
    lease, begun = house.lease(), tmp_path / "begun"
    command = (
        f"trap 'touch $QG_VOLUME/kept; exit 75' TERM; touch {begun}; while :; do sleep 0.05; done"
    )
    task = house.task(lease, command)
    machine = house.launch(lease)
    until(begun.exists)

    house.platform.stop(machine.id)
    house.gone(machine)

    assert house.exit(lease).reason is End.INTERRUPTED
    assert house.end(lease, task) is None
    assert (house.volume / "kept").exists()


def test_task_is_refused_alone_when_its_order_is_damaged(house: House) -> None:
    """A bundle that is not there ends its task with a sentence; the machine goes on."""
    lease = house.lease()
    bad = house.task(lease, "echo never", 1, bundle="e" * 64)
    good = house.task(lease, "echo good", 2)
    machine = house.launch(lease)

    house.gone(machine)

    refused, done = house.end(lease, bad), house.end(lease, good)
    assert refused is not None
    assert refused.code == 65
    assert "the bundle is not in the store" in refused.sentence
    assert (done and done.code) == 0
    assert house.exit(lease).reason is End.DONE


def test_missing_gpu_is_no_machine_to_work_on(house: House) -> None:
    """A machine that was rented with a GPU and has none leaves at once, and starts no task."""
    lease = house.lease()
    task = house.task(lease, "echo never")
    machine = house.launch(lease, gpus=1)

    house.gone(machine)

    assert house.exit(lease).reason is End.INTERRUPTED
    assert house.end(lease, task) is None
    assert "GPU" in house.said(machine)


def test_work_is_finished_when_the_store_is_away_for_a_while(house: House) -> None:
    """An outage ends nothing: the task goes on, and its end is told when the store is back."""
    lease, root = house.lease(), house.store.root
    away = root.with_name("away")
    task = house.task(lease, f"mv {root} {away}; touch {root}")
    machine = house.launch(lease)
    until(away.exists)
    until(root.is_file)
    try:
        until(lambda: "again: " in house.said(machine), "it asks again")
    finally:
        root.unlink()
        away.rename(root)

    house.gone(machine)

    end = house.end(lease, task)
    assert (end and end.code) == 0
    assert house.exit(lease).reason is End.DONE


def test_first_process_goes_on_when_it_was_killed(house: House, tmp_path: Path) -> None:
    """A restart without an exit record resumes: the same claim, one more start, the task again."""
    lease, begun = house.lease(), tmp_path / "begun"
    command = f"echo x >> {begun}; [ $(wc -l < {begun}) = 2 ] || exec sleep 600"
    task = house.task(lease, command)
    machine = house.launch(lease)
    until(begun.exists)

    group = next(m["group"] for m in house.double.machines() if m["id"] == machine.id)
    os.kill(group, signal.SIGKILL)
    house.gone(machine)

    assert house.signs(lease).starts == 2
    end = house.end(lease, task)
    assert (end and end.code) == 0
    assert house.store.find(sign_key(lease.nonce, "claim")) == machine.id.encode()
    assert time.time() < lease.deadline_s


def test_machine_ends_itself_when_a_call_to_its_store_never_returns(house: House) -> None:
    """The rest of the process hangs for ever; a thread of its own still knows the deadline."""
    lease = house.lease(life_s=10.0)
    machine = house.launch(lease, idle_s=60.0, grace_s=0.5)
    until(lambda: house.signs(lease).beat_age_s is not None)
    task = Task("f" * 64, 1)
    order = house.store.root / tasks.task_key(task)
    order.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(order)  # whoever reads it waits for a writer that never comes
    house.store.put_once(tasks.queue_key(lease.subject, 1, task), b"")

    ended = house.gone(machine)
    order.unlink()

    assert house.signs(lease).exit is None
    assert ended["starts"] == 1
    assert lease.deadline_s < ended["ended_s"] < lease.deadline_s + 100.0
