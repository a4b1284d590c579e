"""What every platform of the port says when a call does not go well; see test_platform.py."""

import pytest
from platform_worlds import (
    OWNER,
    SLEEP,
    PlatformWorld,
    fresh,
    launched,
    play,
    running,
    trouble,
    until,
)

from quantgrid.rental.errors import Call, CallFault, Trouble


@pytest.mark.parametrize("kind", ["after", "delay"])
def test_create_is_ambiguous_when_its_reply_is_lost(world: PlatformWorld, kind: str) -> None:
    """The machine is there and is found by its name; the fault says that one has to look."""
    name = fresh()
    order = world.order(name, SLEEP)
    play(world, Call.LAUNCH, kind)

    fault = trouble(lambda: world.platform.launch(order))

    assert fault.trouble is Trouble.AMBIGUOUS
    until(lambda: world.platform.find(str(name)) is not None)
    assert len(world.billing()) == 1


def test_create_makes_nothing_when_it_failed_before(world: PlatformWorld) -> None:
    """An error of the server may hide anything, so it is ambiguous; here nothing was made."""
    order = world.order(fresh(), SLEEP)
    play(world, Call.LAUNCH, "before")

    fault = trouble(lambda: world.platform.launch(order))

    assert fault.trouble in {Trouble.AMBIGUOUS, Trouble.RETRY}
    assert world.billing() == set()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("capacity", Trouble.CAPACITY),
        ("account", Trouble.ACCOUNT),
        ("busy", Trouble.RETRY),
    ],
)
def test_create_says_what_may_be_done_when_refused(
    world: PlatformWorld, kind: str, expected: Trouble
) -> None:
    """Nothing is made; the class of trouble says what may be done next, and a wait is told."""
    order = world.order(fresh(), SLEEP)
    play(world, Call.LAUNCH, kind)

    fault = trouble(lambda: world.platform.launch(order))

    assert fault.trouble is expected
    assert (fault.retry_after_s > 0) == (kind == "busy")
    assert world.billing() == set()


@pytest.mark.parametrize("call", [Call.FIND, Call.MACHINES, Call.OBSERVE, Call.STOP, Call.WHOAMI])
@pytest.mark.parametrize("kind", ["before", "after", "delay"])
def test_look_may_be_repeated_when_it_failed(world: PlatformWorld, call: Call, kind: str) -> None:
    """A look or an end that failed is no answer, ends within the patience, and may be repeated."""
    machine, name = launched(world)
    running(world, machine.id)
    calls = {
        Call.FIND: lambda: world.platform.find(str(name)),
        Call.MACHINES: lambda: world.platform.machines(OWNER),
        Call.OBSERVE: lambda: world.platform.observe(machine.id),
        Call.STOP: lambda: world.platform.stop(machine.id),
        Call.WHOAMI: world.platform.whoami,
    }
    play(world, call, kind)

    fault = trouble(calls[call])

    assert fault.trouble is Trouble.RETRY
    assert fault.call is call
    calls[call]()


def test_absence_is_no_proof_when_the_listing_is_old(world: PlatformWorld) -> None:
    """A listing may lack a fresh machine; the next one has it."""
    machine, _ = launched(world)
    running(world, machine.id)
    play(world, Call.MACHINES, "stale")

    first = {each.id for each in world.platform.machines(OWNER)}

    assert machine.id not in first
    assert machine.id in {each.id for each in world.platform.machines(OWNER)}


def test_name_is_not_given_twice_when_its_machine_lives(world: PlatformWorld) -> None:
    """A second create of a name is refused as taken, or makes a double that can be told apart."""
    machine, name = launched(world)
    running(world, machine.id)
    order = world.order(name, SLEEP)

    ids, troubles = {machine.id}, set()
    try:
        ids.add(world.platform.launch(order).id)  # names are not unique on every platform
    except CallFault as fault:
        troubles.add(fault.trouble)

    until(lambda: {m.id for m in world.platform.machines(OWNER) if m.name == str(name)} == ids)
    assert world.billing() == ids
    assert (len(ids), troubles) in [(1, {Trouble.ALREADY}), (2, set())]
