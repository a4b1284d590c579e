"""The plain platform is honest: it forgets nothing, and its volumes may be stale."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_world import FACTOR, VOLUMES, PlainWorld, world
from platform_worlds import OWNER, SLEEP, fresh, until

from rehearsal.plain.state import start_of


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[PlainWorld]:
    """A platform of its own."""
    with world(tmp_path / "plain") as plain:
        yield plain


def test_machines_live_on_when_the_platform_crashed(plain: PlainWorld) -> None:
    """A restart knows every machine, goes on to count, and ends what it did not start itself."""
    name = fresh()
    machine = plain.platform.launch(plain.order(name, SLEEP))
    until(lambda: plain.double.machines()[0]["group"])
    group, before = plain.double.machines()[0]["group"], plain.bill_microusd()

    plain.double.crash()
    assert start_of(group)
    plain.double.start()

    assert [each.id for each in plain.platform.machines(OWNER)] == [machine.id]
    assert plain.bill_microusd() > before
    plain.platform.stop(machine.id)
    until(lambda: plain.billing() == set())
    assert not start_of(group)


def test_view_stays_as_it_was_when_the_volume_is_a_frozen_one(
    plain: PlainWorld, tmp_path: Path
) -> None:
    """A machine sees the volume of its start; what it wrote is seen once it has ended."""
    plain.double.change(volumes=VOLUMES | {"v-good": VOLUMES["v-good"] | {"view": "frozen"}})
    volume, told, go = (
        plain.double.folder / "volumes" / "v-good",
        tmp_path / "told",
        tmp_path / "go",
    )
    (volume / "old").touch()
    words = f"touch volume/mine {told}; until [ -e {go} ]; do sleep 0.02; done; ls volume > {told}"
    machine = plain.platform.launch(plain.order(fresh(), ("sh", "-c", words)))
    until(told.exists)

    (volume / "new").touch()
    assert not (volume / "mine").exists()
    go.touch()
    until(lambda: machine.id not in plain.billing())

    assert told.read_text().split() == ["mine", "old"]
    assert sorted(path.name for path in volume.iterdir()) == ["mine", "new", "old"]


def test_region_takes_its_machines_along_when_it_is_gone(plain: PlainWorld) -> None:
    """Nothing of a lost region is listed, billed or rented, and its volume is not there."""
    plain.platform.launch(plain.order(fresh(), SLEEP))

    plain.double.change(regions_down=["here"])
    until(lambda: plain.billing() == set())

    assert plain.platform.machines(OWNER) == ()
    assert plain.platform.volume("v-good") is None
    assert [each.region for each in plain.platform.candidates("cpu", 1)] == ["there"]


def test_bill_ends_when_the_first_process_returns(plain: PlainWorld) -> None:
    """A platform without a restart loop ends a machine by itself, and says how."""
    machine = plain.platform.launch(plain.order(fresh(), ("sh", "-c", "exit 3")))
    until(lambda: plain.billing() == set())
    cost = plain.bill_microusd()
    time.sleep(0.05)

    seen = plain.platform.observe(machine.id)
    assert plain.bill_microusd() == cost
    assert seen is not None
    assert (seen.is_billing, seen.exit_code) == (False, 3)


def test_perfect_bill_is_work_boot_and_losses_when_machines_did_more(plain: PlainWorld) -> None:
    """Idle time, a machine for nothing and work done twice are waste; a lost host is not."""
    plain.double.change(boot_s=0.5 * FACTOR)
    idle = plain.platform.launch(plain.order(fresh(), ("sh", "-c", "bash -c 'sleep 1'; sleep 2")))
    twice = plain.platform.launch(plain.order(fresh(), ("sh", "-c", "bash -c 'sleep 1'")))
    plain.platform.launch(plain.order(fresh(), ("sh", "-c", "true")))
    lost = plain.platform.launch(plain.order(fresh(), ("sh", "-c", "bash -c 'sleep 600'")))
    until(lambda: plain.billing() == {lost.id})
    plain.double.take(lost.id)
    until(lambda: plain.billing() == set())
    ended = {each["id"]: each["ended_s"] - each["begin_s"] for each in plain.double.machines()}

    perfect = plain.double.perfect(width=1)

    assert 1.0 <= perfect["work_s"] < min(1.9, ended[twice.id])
    assert perfect["boot_s"] >= 2 * 0.5  # its own machine, and the one after the loss
    assert perfect["lost_s"] == pytest.approx(ended[lost.id])
    least = (perfect["work_s"] + perfect["boot_s"] + ended[lost.id]) * 100  # 0.36 dollars an hour
    assert perfect["microusd"] == pytest.approx(least, abs=1)
    assert plain.bill_microusd() >= perfect["microusd"] + (ended[idle.id] - 1.5) * 100
    _assert_spent(plain, ended, idle.id)


def _assert_spent(plain: PlainWorld, ended: dict[str, float], idle: str) -> None:
    """The parts of each machine's seconds are all of them, and waste is told from work."""
    spent = dict(zip(ended, plain.double.spent(), strict=True))
    parts = "boot_s", "work_s", "between_s", "after_s"
    for machine, each in spent.items():
        assert sum(each[part] for part in parts) == pytest.approx(ended[machine])
    assert spent[idle]["boot_s"] >= 0.5
    assert spent[idle]["work_s"] >= 1.0
    assert spent[idle]["after_s"] >= 1.9
    assert sorted(each["num_lines"] for each in spent.values()) == [0, 1, 1, 1]
    assert [each["is_lost"] for each in spent.values()].count(True) == 1
