"""Machines that were paid for because a create call did not say what it did.

Incident: a create answered 500 though the machine was there, was repeated, and two machines ran
(transformerlab-app 2305, comfyui-mcp 251 and 276, verifiers 2406, conductai 359; CP 4: 1, 2, 3, 11,
15, 16, 20, 32).  Others' machines with a similar name were taken for ours.

Guards: `quantgrid.rental.steps.step` looks by name before anything else is created,
`quantgrid.rental.port.find_name` knows ours by a nonce, and `quantgrid.rental.rounds.Rounds` writes
the state before the call and steps no lease of another account.
"""

import math

import pytest

from quantgrid.rental.errors import Call, Trouble
from quantgrid.rental.lease import End, Phase, Reply
from quantgrid.rental.port import Name
from rented_controller import Controller
from rented_world import CANDIDATES, LIMITS, Rented, World

A = "a" * 64


def wanted(world: World) -> Controller:
    """A controller that wants one machine."""
    controller = Controller(world)
    controller.want(A)
    return controller


def test_lost_reply_is_one_machine_when_the_create_was_done() -> None:
    """CP 4.1 and 4.2: the machine of a create that answered 502 is adopted, by its name."""
    world = World()
    world.fates = ["lost"]
    controller = wanted(world)

    lease = controller.until(A, Phase.RUNNING)

    assert [m.id for m in world.machines.values()] == [lease.machine]
    assert world.calls.count(Call.LAUNCH) == 1


def test_lost_reply_is_one_machine_when_it_hides_for_long() -> None:
    """CP 4.2 and 4.4: a machine that appears only after a while is waited for, not replaced."""
    world = World()
    world.fates, world.hidden_s = ["lost"], LIMITS.visible_s - 1
    controller = wanted(world)

    controller.until(A, Phase.RUNNING)

    assert len(world.machines) == 1


def test_lost_reply_is_one_machine_when_the_create_is_done_long_after() -> None:
    """CP 4.15: a call that was given up takes effect as late as a create may, and then hides."""
    world = World()
    world.fates, world.hidden_s, world.boot_s = ["slow"], LIMITS.visible_s - 1, 200.0
    controller = wanted(world)

    lease = controller.until(A, Phase.RUNNING)

    assert [m.id for m in world.machines.values()] == [lease.machine]
    assert world.calls.count(Call.LAUNCH) == 1


def test_create_is_repeated_under_another_name_when_nothing_was_made() -> None:
    """CP 4.2: the second create comes after three looks, and has a nonce of its own."""
    world = World()
    world.fates = ["ambiguous"]
    controller = wanted(world)

    lease = controller.until(A, Phase.RUNNING)

    assert lease.attempt == 2
    first, second = [i for i, call in enumerate(world.calls) if call is Call.LAUNCH]
    assert world.calls[first:second].count(Call.FIND) >= 3


def test_machine_that_shows_too_late_is_ended_when_another_has_its_place() -> None:
    """CP 4.2: a platform that hid it for longer than it says leaves one machine all the same."""
    world = World()
    world.fates = ["lost"]

    def hide(first: Rented) -> None:
        first.visible_s, first.ready_s = world.now_s + 900, math.inf
        world.created = lambda _: None

    world.created = hide
    controller = wanted(world)
    lease = controller.until(A, Phase.RUNNING)
    assert len(world.alive) == 2

    controller.spend(40)

    assert [machine.id for machine in world.alive] == [lease.machine]


def test_foreign_machine_is_untouched_when_its_name_is_like_ours() -> None:
    """CP 4.3: another owner's machine, with our subject, is neither adopted nor ended."""
    world = World()
    world.fates = ["ambiguous"]
    controller = wanted(world)
    order = controller._order(controller.lease(A), Name("deadbeef", A[:12], 1, "0" * 12))
    foreign = Rented(world, "foreign", order)
    world.machines["foreign"] = foreign
    foreign.live = lambda: None  # type: ignore[method-assign]

    lease = controller.until(A, Phase.RUNNING)
    controller.rounds.cancel(A)
    controller.until(A, Phase.ERROR)

    assert lease.machine != "foreign"
    assert world.alive == [foreign]


def test_machine_is_adopted_when_the_controller_died_inside_the_create() -> None:
    """CP 4.15 and 4.16: intent and name are in the register before anything else happens."""
    world = World()
    world.fates = ["die"]
    first = wanted(world)
    for _ in range(5):
        if not first.go():
            break
    world.is_dead = lambda by: by == first.by
    assert [m.name for m in world.alive] == [first.lease(A).name(first.register.owner())]

    lease = wanted(world).until(A, Phase.RUNNING)

    assert [m.id for m in world.machines.values()] == [lease.machine]


def test_create_of_a_dead_controller_is_looked_for_at_once() -> None:
    """CP 4.15: nobody waits for the reply of a call whose caller is gone."""
    world = World()
    world.fates, world.hidden_s = ["die"], LIMITS.visible_s - 1
    first = wanted(world)
    while first.go():
        pass
    assert first.lease(A).phase is Phase.CREATING
    world.is_dead = lambda by: by == first.by
    second = wanted(world)

    second.go()

    assert second.lease(A).phase is Phase.RECONCILE
    second.until(A, Phase.RUNNING)
    assert len(world.machines) == 1


def test_hundred_creates_are_a_hundred_machines_when_replies_are_lost() -> None:
    """CP 4.11: whatever becomes of the replies, a subject has one machine."""
    world = World(seed=3)
    world.fates = [world.random.choice(["lost", "lost", "retry", ""]) for _ in range(100)]
    controller = Controller(world)
    subjects = [f"{number:012x}" + "0" * 52 for number in range(100)]
    for subject in subjects:
        controller.want(subject)

    controller.spend(12)

    assert {m.name.subject for m in world.alive} == {subject[:12] for subject in subjects}
    assert len(world.machines) == 100


@pytest.mark.parametrize("place", ["account", "volume"])
def test_nothing_is_created_when_it_is_another_place(place: str) -> None:
    """CP 4.20: another account, or one without the pinned volume, is refused before any create."""
    world = World()
    world.account = "lab/other" if place == "account" else world.account
    controller = Controller(world)
    controller.want(A, volume="vol" if place == "account" else "elsewhere")

    controller.spend(3)

    assert Call.LAUNCH not in world.calls
    assert not [key for key in world.keys if key.startswith("rental/leases")]
    assert "this is another account" in world.told[0]


def test_next_candidate_is_asked_when_nothing_is_free() -> None:
    """CP 4.32: a catalogue that promised too much costs no failure and no other machine."""
    world = World()
    world.fates = ["capacity"]
    controller = wanted(world)

    lease = controller.until(A, Phase.RUNNING)

    assert lease.candidate == CANDIDATES[1]
    assert (lease.failures, lease.interruptions, lease.waits) == (0, 0, 1)
    assert lease.end is not End.FAILED


def test_next_candidate_is_asked_when_a_listed_machine_only_waited() -> None:
    """CP 4.32: what a platform lists while the create still waits for a device never booted."""
    world = World()
    world.boot_s = 1e9
    controller = wanted(world)
    controller.until(A, Phase.BOOTING)
    nonce = controller.lease(A).nonce
    (queued,) = world.alive

    controller.rounds._replies[nonce] = Reply(nonce, trouble=Trouble.CAPACITY)
    world.boot_s = 30.0
    lease = controller.until(A, Phase.RUNNING)

    assert queued.ended_s is not None
    assert lease.candidate == CANDIDATES[1]
    assert (lease.slow_boots, lease.interruptions, lease.waits) == (0, 0, 1)
