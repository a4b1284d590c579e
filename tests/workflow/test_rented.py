"""Grids on rented machines: the same numbers, nothing lost, nothing paid twice or left over."""

import csv
import json
import os
import random
import signal
from pathlib import Path

import pytest

from quantgrid.rental.port import find_name
from quantgrid.rental.tasks import done_words
from rented_copy import RATES, Gate, RentedCopy, add_waiting, rented
from working_copy import CELLS, FEW, GRID, SIZES, WorkingCopy, lay, table

WAITING = table("waiting")
"""What is asked for where the page is not the point."""
TIMES = ("wall_s", "cpu_s", "platform", "device")


def rows(copy: WorkingCopy, grid: str) -> list[dict[str, str]]:
    """The table without what differs from place to place."""
    with (copy / f"results/{grid}.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


def nonces(place: RentedCopy) -> set[str]:
    """The nonces of all machines that the platform ever had."""
    names = [find_name(each["name"]) for each in place.double.machines()]
    return {name.nonce for name in names if name}


def assert_one_machine_a_link(place: RentedCopy) -> None:
    """No attempt of a lease ever had two machines."""
    names = [find_name(each["name"]) for each in place.double.machines()]
    attempts = [(name.subject, name.attempt) for name in names if name]
    assert len(set(attempts)) == len(attempts)


@pytest.mark.parametrize("grid", [FEW, pytest.param(GRID, marks=pytest.mark.nightly)])
def test_grid_on_rented_machines_equals_the_local_one(
    place: RentedCopy, here: WorkingCopy, grid: str
) -> None:
    """Same table and laws bit for bit; each job ran in a machine with its nonce; all is paid."""
    assert not (place.root / "archive").exists()

    said = place.snakemake(grid=grid)

    assert f"{SIZES[grid]}/{SIZES[grid]} cells" in said.text
    assert rows(place.copy, grid) == rows(here, grid)
    laws = f"results/{grid}-laws.csv"
    assert (place.copy / laws).read_bytes() == (here / laws).read_bytes()
    keys = place.register().store.list("rental/signs")
    ended = {found[1]: found[0] for key in keys if (found := done_words(key))}
    assert len(ended) == {FEW: 6, GRID: 18}[grid]  # 2 of the corpus, milestones, cells
    assert set(ended.values()) <= nonces(place)
    result = json.loads(next((place.root / "results").glob("*/*/result.json")).read_bytes())
    assert result["platform"]["name"] == "plain"
    assert len(place.double.machines()) <= 6
    assert_one_machine_a_link(place)
    place.assert_paid()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_grid_of_real_science_on_rented_machines_equals_the_local_one(tmp_path: Path) -> None:
    """The 14 cells of the smoke grid as they are: the same numbers, bit for bit."""
    local = lay(tmp_path / "local", light=False)
    local.snakemake(grid="smoke", timeout_s=1700)
    with rented(tmp_path / "there", light=False, factor=5.0) as place:
        said = place.snakemake(grid="smoke", timeout_s=1700)

        assert f"{CELLS}/{CELLS} cells" in said.text
        assert len(rows(place.copy, "smoke")) == CELLS
        assert rows(place.copy, "smoke") == rows(local, "smoke")
        laws = "results/smoke-laws.csv"
        assert (place.copy / laws).read_bytes() == (local / laws).read_bytes()
        assert_one_machine_a_link(place)
        place.assert_paid()


def test_nothing_is_lost_or_doubled_when_the_controller_is_killed_again_and_again(
    place: RentedCopy, gate: Gate
) -> None:
    """SIGKILL at ten random moments, restarted each time: each program was started once."""
    _kill_again_and_again(place, gate, times=10, seed=1, between_s=(0.5, 3.0))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 12))
def test_nothing_is_lost_or_doubled_at_fifty_moments(
    place: RentedCopy, gate: Gate, seed: int
) -> None:
    """The same at fifty moments in all."""
    _kill_again_and_again(place, gate, times=5, seed=seed, between_s=(2.0, 7.0))


def _kill_again_and_again(
    place: RentedCopy, gate: Gate, times: int, seed: int, between_s: tuple[float, float]
) -> None:
    moments = random.Random(seed)
    for _ in range(times):
        with place.running() as controller:
            with pytest.raises(Exception, match="timed out"):
                controller.wait(moments.uniform(*between_s))
            os.killpg(controller.pid, signal.SIGKILL)
    gate.open()
    place.snakemake(WAITING)

    assert gate.starts() == dict.fromkeys(map(str, RATES), 1)
    assert len(rows(place.copy, "waiting")) == len(RATES)
    assert_one_machine_a_link(place)
    place.assert_paid()


def test_the_error_of_a_program_comes_first_and_its_log_is_here(
    place: RentedCopy, gate: Gate
) -> None:
    """A failed cell is told by its own words, remembered, and hinders no other."""
    (gate.folder / "0.2.bad").touch()
    gate.open()

    said = place.snakemake(code=1)

    assert "ArithmeticError: the loss is not finite" in said.text
    log = next((place.root / "logs/receipts/cell").rglob("own.*.log"))
    assert log.parent.name.startswith("wait-lr")
    assert list((place.root / "failures").rglob("*.json"))
    assert len(list((place.root / "results").glob("*/*/result.json"))) == 2
    assert place.quantgrid("why", "wait-lr0p2-s0/own", code=None).text
    place.assert_paid()


FAULTS = [
    "before",
    "after",
    "delay",
    "silent",
    "stale",
    "capacity",
    "quota",
    "busy",
    "money",
    "key",
]


def _all_done(place: RentedCopy, rates: list[float]) -> None:
    """Ask for a grid again and again until it is done, on a platform that fails in every way."""
    ended = [place.snakemake(WAITING, code=None, timeout_s=1900)]
    while ended[-1].code and len(ended) < 6:
        ended.append(place.snakemake(WAITING, code=None, timeout_s=1900))
    assert ended[-1].code == 0, ended[-1].text[-3000:]
    place.double.change(nemesis={"rate": 0.0, "seed": 0, "kinds": []})
    place.quantgrid("stop")
    place.quantgrid("reap", "--platform", "plain")  # asks once more for bills

    assert len(rows(place.copy, "waiting")) == len(rates)
    assert_one_machine_a_link(place)
    place.assert_paid()


def _rates(count: int) -> list[float]:
    return [round(0.001 * number, 3) for number in range(1, count + 1)]


def test_all_cells_are_done_when_calls_of_the_platform_fail(tmp_path: Path) -> None:
    """Every eighth call fails in one of ten ways: each program runs once, and all is paid."""
    nemesis = {"rate": 0.12, "seed": 3, "kinds": FAULTS, "seconds": 1.0}
    with rented(tmp_path, nemesis=nemesis) as place:
        gate = add_waiting(place.copy, _rates(4))
        gate.open()

        _all_done(place, _rates(4))

        assert gate.starts() == dict.fromkeys(map(str, _rates(4)), 1)


@pytest.mark.nightly
@pytest.mark.timeout(2350)
def test_hundred_cells_cost_little_more_than_a_perfect_controller_would_pay(tmp_path: Path) -> None:
    """Every twentieth call fails in one of ten ways, and every twentieth host is lost.

    The bill is at most 1.05 times what the double itself says that a controller would have paid
    which knew all of it beforehand.
    """
    width, rates = 20, _rates(100)
    nemesis = {"rate": 0.05, "seed": 4, "kinds": FAULTS, "seconds": 1.0}
    nemesis |= {"lost_rate": 0.05, "lost_s": 600.0}
    section = {"machines": width, "idle_s": 20}
    with rented(tmp_path, factor=5.0, section=section, nemesis=nemesis, boot_s=10.0) as place:
        place.profile(jobs=100)
        add_waiting(place.copy, rates, seconds=180.0).open()

        _all_done(place, rates)

        perfect, bill = place.double.perfect(width, alike=True), place.double.bill_usd() * 1e6
        machines = place.double.machines()
        lost = sum(each["killed"] for each in machines)
        print(f"bill {bill:.0f}, perfect {perfect}, {len(machines)} machines, {lost} of them lost")
        _print_spent(place)
        assert lost >= 1
        assert bill <= 1.05 * perfect["microusd"]


def _print_spent(place: RentedCopy) -> None:
    """Where the money went, one line a machine."""
    each_one = place.double.spent()
    for each in each_one:
        print("  ".join(f"{name} {seconds:.1f}" for name, seconds in each.items()))
    print("all", {name: round(sum(e[name] for e in each_one), 1) for name in each_one[0]})
