"""Longer than any machine may live, with every laptop closed: coordinators follow each other."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rented_copy import RentedCopy, rented, told

ONE_TRUNK = """
corpus: shakespeare
evaluation: {sequences: 16}
blocks:
  main:
    models: [n0]
    tokens: [20_000]
    seeds: [0]
    forms: [{method: none}, {method: rtn, bits: 4, group: row, scale: noclip}]
"""
DAY_S = 240
"""Seconds that stand for the day that a machine may live: long beside a start on a busy desk."""
FACTOR = 5.0
LIMITS = {"cap_s": FACTOR * DAY_S, "grace_s": 40, "boot_s": 200, "create_s": 100, "visible_s": 20}


def days_of(place: RentedCopy) -> Counter[str]:
    """How many leases there were of coordinators, and of everything else."""
    cells = [str(lease["cell"]) for lease in told(place.root)]
    return Counter("coordinator" if cell == "coordinator" else "cell" for cell in cells)


def followed(folder: Path, days: int) -> None:
    """A trunk of some days; the laptop is halted from the first moment to the last."""
    work = {"LIGHT_WORK_S": str(days * DAY_S)}
    secrets = {"PLAIN_MAIN": "token-main", **work}
    section = {"secrets": list(work), "idle_s": 60}
    with rented(folder, factor=FACTOR, limits=LIMITS, section=section, secrets=secrets) as place:
        (place.root / "config/grids/trunk.yaml").write_text(ONE_TRUNK)
        place.copy.edit("config/config.yaml", "grid: demo ", "grid: trunk ")
        place.copy.edit("config/config.yaml", "platform: local ", "platform: plain ")
        place.quantgrid("launch", "--on", "plain")
        laptop = subprocess.Popen(
            [sys.executable, "-m", "quantgrid", "attach"],
            cwd=place.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.kill(laptop.pid, signal.SIGSTOP)
        try:
            _await_result(place, days)
        finally:
            os.kill(laptop.pid, signal.SIGCONT)
        said, _ = laptop.communicate(timeout=120)

        assert laptop.returncode == 0, said[-4000:]
        (path,) = (place.root / "archive/trunks").glob("*/*/*/record.json")
        links = json.loads(path.read_bytes())["links"]
        assert len(links) >= days
        assert [link["end"] for link in links[:-1]] == ["cap"] * (len(links) - 1)
        assert days_of(place)["coordinator"] >= days
        place.quantgrid("stop")
        place.quantgrid("reap", "--platform", "plain")
        place.assert_paid()


def _await_result(place: RentedCopy, days: int) -> None:
    """Wait until the last coordinator said that the grid is done."""
    done = place.root / "archive/cells"

    def is_done(_: object) -> bool:
        return len(list(done.glob("*/*/*/record.json"))) == 2

    place.double.wait(is_done, timeout_s=(days + 5) * DAY_S)  # a busy machine: no claim


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_chain_of_six_days_ends_with_the_laptop_halted(tmp_path: Path) -> None:
    """Six coordinators and six links at least, each no longer than a day; all is paid."""
    followed(tmp_path / "rented", days=6)


@pytest.mark.nightly
@pytest.mark.timeout(2000)
def test_chain_of_two_days_ends_with_the_laptop_halted(tmp_path: Path) -> None:
    """The same for two days."""
    followed(tmp_path / "rented", days=2)
