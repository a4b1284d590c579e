"""Sandboxes that outlived the client that asked for them, or died with it.

Incident: a client was killed while it waited for a GPU inside `Sandbox.create`, and the sandbox
started later and cost for a day (verifiers 2406, conductai 359; CP 4: 10, 15, 16); sandboxes were
looked for in another app after a setting had changed (bb 3568; CP 4: 18); jobs of an attached app
died with a laptop (training-gym 322 and 323; CP 4: 21); and a job was reported done though nobody
knew its code (makermodslab 34; CP 4: 24).

Guards: `quantgrid.rental.rounds.Rounds` writes a name down before the call and looks for it,
`quantgrid.rental.modal.Modal` has one app for ever and attaches to none, and
`quantgrid.rental.steps.step` believes no code without an exit record.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import modal_parts as parts
from modal_controller import SUBJECT, rounds, wanted
from quantgrid.rental.lease import End, Lease, Phase
from quantgrid.rental.port import MachineState, find_name
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds
from quantgrid.store import open_store
from rehearsal.modal.double import Double, until

FACTOR = 60.0
SLEEP = ("sleep", "600")
TESTS = Path(__file__).parents[1]


def _environment(double: Double) -> dict[str, str]:
    """What a process of ours needs to be somebody of the workspace."""
    root = TESTS.parent
    return os.environ | double.environment("lab") | {"PYTHONPATH": f"{TESTS}:{root}:{root}/src"}


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double for all tests here."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), FACTOR) as double:
        yield double


@pytest.fixture(autouse=True)
def _nothing_is_billing_at_the_end(double: Double) -> Iterator[None]:
    """Each test ends what it rented."""
    yield
    double.plant()
    double.put("capacity", {})
    assert double.living() == []


def _lease(folder: Path) -> Lease | None:
    newest = Register(open_store(str(folder / "store"), folder)).newest(SUBJECT)
    return newest.lease if newest else None


def _phase(folder: Path) -> Phase | None:
    lease = _lease(folder)
    return lease.phase if lease else None


def _go_until(controller: Rounds, phase: Phase) -> Lease:
    """Rounds until the lease is in a phase."""

    def is_there() -> bool:
        controller.go()
        last = controller.last.get(SUBJECT)
        return last is not None and last.phase is phase

    until(is_there, f"{phase}", lambda: str(controller.last))
    return controller.last[SUBJECT]


def _end(controller: Rounds) -> Lease:
    """Cancel, and confirm the end."""
    controller.cancel(SUBJECT)
    return _go_until(controller, Phase.ERROR)


# -- killed inside a create ------------------------------------------------------------------------


@contextmanager
def _controller(double: Double, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A controller in a process of its own."""
    environment, script = _environment(double), str(TESTS / "modal_controller.py")
    with (folder / "controller.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, script, str(folder)], env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(180)


def _kill_inside_a_create(double: Double, folder: Path, seed: int) -> None:
    """One round of the incident: killed somewhere from the intent to the waiting for a GPU."""
    folder.mkdir()
    said = {"gpu": True, "words": SLEEP, "factor": FACTOR}
    (folder / "wanted.json").write_text(json.dumps(said))
    double.put("capacity", {"H100:1": 0})
    before = len(double.boxes())
    with _controller(double, folder):
        begun = {Phase.CREATING, Phase.BOOTING}
        until(lambda: _phase(folder) in begun, "a create", (folder / "controller.log").read_text)
        time.sleep(random.Random(seed).uniform(0, 0.4))
    double.put("capacity", {"H100:1": 1})

    with _controller(double, folder):
        until(lambda: _phase(folder) is Phase.BOOTING, "an adoption", lambda: str(_lease(folder)))
        until(lambda: any(box["started_s"] for box in double.living()), "a start")
        lease = _lease(folder)
        assert lease is not None
        assert [box["id"] for box in double.living()] == [lease.machine]
        made = double.boxes()[before:]
        assert len({box["name"] for box in made}) == len(made)
        assert len(made) == 1, [box["name"] for box in made]

    controller = rounds(folder, parts.connected(double), [])
    assert _end(controller).end is End.CANCELLED


@pytest.mark.parametrize("seed", range(3))
def test_sandbox_is_adopted_when_its_client_was_killed_in_the_create(
    double: Double, tmp_path: Path, seed: int
) -> None:
    """CP 4.15 and 4.16: whoever starts again finds it by its name, and rents no second one."""
    _kill_inside_a_create(double, tmp_path / "copy", seed)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_sandbox_is_adopted_twenty_times(double: Double, tmp_path: Path) -> None:
    """CP 4.15: at twenty other moments."""
    for seed in range(100, 120):
        _kill_inside_a_create(double, tmp_path / str(seed), seed)


def test_nothing_is_left_when_cancelled_while_the_create_waits(
    double: Double, tmp_path: Path
) -> None:
    """CP 4.10: a create that blocks is ended with its lease, and nothing starts later."""
    double.put("capacity", {"H100:1": 0})
    platform = parts.connected(double, capacity_s=20.0)
    controller = rounds(tmp_path, platform, [])
    controller.want(wanted(SLEEP, parts.GPU, FACTOR))
    _go_until(controller, Phase.BOOTING)  # listed, though it only waits

    assert _end(controller).end is End.CANCELLED

    double.put("capacity", {})
    assert double.living() == []
    assert double.boxes()[-1]["started_s"] == 0
    assert {cost.nonce for cost in controller.register.books().costs}


# -- whoever looks later ---------------------------------------------------------------------------


def test_sandboxes_are_found_when_every_setting_is_another(double: Double) -> None:
    """CP 4.18: the app follows from the register, so no setting hides what was rented before."""
    made = parts.connected(double).launch(parts.order(parts.connected(double), *SLEEP))

    later = parts.connected(double, cpu=8.0, memory_mib=65_536, volume_name="renamed")

    assert [each.id for each in later.machines(parts.OWNER)] == [made.id]
    later.stop(made.id)


CLIENT = """
import sys, time
import modal, modal_parts as parts
from quantgrid.rental.modal import Modal, Place
platform = Modal(Place(factor=60.0), (parts.CPU,), parts.QUICK)
words = ("sh", "-c", "sleep 6; exit 7")
if sys.argv[1] == "ours":
    print(platform.launch(parts.order(platform, *words)).id, flush=True)
    time.sleep(600)
app = modal.App("attached")
with app.run():
    image = modal.Image.from_registry(parts.IMAGE)
    print(modal.Sandbox.create(*words, app=app, image=image).object_id, flush=True)
    time.sleep(600)
"""


def _code_after_kill(double: Double, kind: str, number: signal.Signals) -> int | None:
    """The code of a sandbox whose client got a signal as soon as it had it."""
    environment = _environment(double)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, kind],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert client.stdout is not None
    box = client.stdout.readline().strip()
    client.send_signal(number)
    client.wait(180)
    client.stdout.close()
    platform = parts.connected(double)
    until(lambda: _is_over(platform, box), f"{box} ends")
    seen = platform.observe(box)
    return seen.exit_code if seen else None


def _is_over(platform: object, box: str) -> bool:
    seen = platform.observe(box)  # type: ignore[attr-defined]
    return seen is None or seen.state is MachineState.ENDED


def test_job_goes_on_when_its_client_is_gone(double: Double) -> None:
    """CP 4.21: nothing of ours depends on the client; an attached app of the SDK would end."""
    assert _code_after_kill(double, "ours", signal.SIGKILL) == 7
    assert _code_after_kill(double, "attached", signal.SIGKILL) == 137


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_job_goes_on_when_its_client_got_a_signal(double: Double, number: signal.Signals) -> None:
    """CP 4.21: neither does an ending that the SDK hears of end a sandbox of ours."""
    assert _code_after_kill(double, "ours", number) == 7


@pytest.mark.parametrize("code", [0, 137])
def test_end_is_an_interruption_when_a_sandbox_was_taken_away(
    double: Double, tmp_path: Path, code: int
) -> None:
    """CP 4.24: a preempted sandbox may show any code, 0 too; without a record it is no success."""
    controller = rounds(tmp_path, parts.connected(double), [])
    deaf = tmp_path / "deaf"
    stubborn = ("sh", "-c", f"trap '' INT; : > {deaf}; sleep 600")
    controller.want(wanted(stubborn, parts.GPU, FACTOR))
    first = _go_until(controller, Phase.BOOTING)
    until(deaf.exists, "a start")

    double.act("preempt", first.machine, code=code)
    assert double.boxes()[-1]["code"] == code
    second = _go_until(controller, Phase.PLANNED)

    assert (second.interruptions, second.end) == (1, End.INTERRUPTED)
    third = _go_until(controller, Phase.BOOTING)
    assert third.attempt == first.attempt + 1
    (box,) = double.living()
    name = find_name(box["name"])
    assert name is not None
    assert name.nonce == third.nonce
    assert _end(controller).end is End.CANCELLED
