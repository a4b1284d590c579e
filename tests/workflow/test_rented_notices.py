"""A person hears what happens on rented machines, though the controller is dead."""

import os
import signal
from collections import Counter

import pytest

from detached import await_true
from listener import Listener, listening
from rented_copy import RentedCopy, add_waiting

ALARM = """
import argparse, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
parser.add_argument("--gate")
given, _ = parser.parse_known_args()
with open(os.path.join(given.gate, f"{given.lr}.starts"), "a") as starts:
    starts.write(f"{os.environ.get('PLAIN_MACHINE')} {os.getpid()}\\n")
while not os.path.exists(os.path.join(given.gate, "go")):
    print("lives", flush=True)
    time.sleep(1)
print("alarm: the gap is 0.31 nats", file=sys.stderr)
sys.exit(76)
"""


def _pay(place: RentedCopy, listener: Listener) -> None:
    """Money for the grid, a price for the platform, and somebody who hears of the first cent."""
    place.copy.edit("config/config.yaml", "max_usd_per_grid: 0 ", "max_usd_per_grid: 5 ")
    told = f"webhook: {listener.address}\n  spend_at: [0.000001]"
    place.copy.edit("config/config.yaml", 'webhook: ""', told)
    platform = place.root / "config/platforms/plain.yaml"
    platform.write_text(f"{platform.read_text()}bills_as: here\n")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_person_hears_of_everything_when_the_controller_of_machines_is_killed(
    place: RentedCopy,
) -> None:
    """Its silence by a machine, the alarm by the runner there, the spend by the next controller."""
    gate = add_waiting(place.copy, [0.1])
    (place.root / "mine/wait.py").write_text(ALARM)
    with listening() as listener:
        _pay(place, listener)

        def kinds() -> Counter[str]:
            return Counter(each["kind"] for each in listener.heard)

        place.snakemake("screens")
        with place.running() as controller:
            gate.await_starts(1)
            os.killpg(controller.pid, signal.SIGKILL)
            await_true(lambda: kinds()["silence"] == 1, f"nobody told it: {listener.heard}")
            gate.open()
            await_true(lambda: kinds()["alarm"] == 1, f"nobody told it: {listener.heard}")
        place.snakemake(code=1)
        place.quantgrid("stop", code=None)

        assert kinds() == {"silence": 1, "alarm": 1, "spend": 1, "fault": 1}
    texts = {each["kind"]: each["text"] for each in listener.heard}
    assert "machines on plain work on until their deadlines" in texts["silence"]
    assert "the gap is 0.31 nats" in texts["alarm"]
    assert "of $5.00 are spent" in texts["spend"]
    assert list(place.register().store.list("rental/controllers")) == []
    place.assert_paid()
