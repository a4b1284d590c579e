"""Healthy machines that were ended, and dead ones that nobody noticed.

Incident: a degraded control plane said that healthy jobs were gone, and they were started again; a
second controller started what the first one had; a machine that was taken away was noticed after
twenty minutes (skypilot 779 and 10487, opengeni 241, dstack 2732; CP 4: 13, 14, 19, 31).  Ours: of
43 machines of a grid of 100 cells 23 were ended as silent while they beat, for a listing read the
names before a new beat was put, and looked at the old one after that was removed.

Guards: `quantgrid.rental.steps.step` believes the beats of a machine before any word of a platform,
and concludes nothing from a listing without them; `quantgrid.inside.signs.Signs.beat` keeps the
last beat but one, and `quantgrid.rental.register.Register.append` lets one controller write the
next state.
"""

from quantgrid.rental.errors import Call
from quantgrid.rental.lease import End, Phase, Seen, Signs
from quantgrid.rental.steps import step
from rented_controller import Controller
from rented_world import TERMS, World

A = "a" * 64


def running(world: World) -> Controller:
    """A controller whose one machine runs."""
    controller = Controller(world)
    controller.want(A)
    controller.until(A, Phase.RUNNING)
    return controller


def test_machine_is_one_when_two_controllers_want_it() -> None:
    """CP 4.13: whatever the order of their rounds, they share a lease, a machine and a bill."""
    world = World()
    both = [Controller(world), Controller(world)]
    for controller in both:
        controller.want(A)
    for _ in range(20):
        for controller in both:
            controller.go()
        world.advance(30)

    assert len(world.machines) == 1
    assert len(both[0].books().promises) == 1


def test_machine_is_one_when_the_rounds_of_two_controllers_cross() -> None:
    """CP 4.13: whoever wrote the state first acts on it, and the other reads it again."""
    world = World()
    late, quick = Controller(world), Controller(world)
    for controller in (late, quick):
        controller.want(A)
    ways = late.rounds.ways

    def overtaken() -> str:
        quick.go()
        return ways.fresh()

    late.rounds.ways = ways._replace(fresh=overtaken)
    for _ in range(20):
        late.go()
        world.advance(30)

    assert late.phase(A) is Phase.RUNNING
    assert len(world.machines) == 1
    assert len(late.books().promises) == 1


def test_end_is_known_when_another_controller_confirmed_it() -> None:
    """CP 4.13: who helped to end a machine does not wait for it for ever; an attach did."""
    world = World()
    owner, helper = running(world), Controller(world)
    owner.rounds.cancel(A)
    owner.go()
    helper.go()
    assert helper.rounds.last[A].phase is Phase.TERMINATING

    owner.until(A, Phase.ERROR)
    helper.go()

    assert helper.rounds.last[A].phase is Phase.ERROR


def test_machine_is_untouched_when_the_platform_is_down() -> None:
    """CP 4.14: ten minutes without an answer end nothing and start nothing; a person reads it."""
    world = World()
    controller = running(world)
    world.down = set(Call)
    controller.spend(20)
    told = list(world.told)
    world.down = set()
    controller.spend(5)

    assert [m.ended_s for m in world.machines.values()] == [None]
    assert controller.phase(A) is Phase.RUNNING
    (once,) = told
    assert "Machines that run go on; asking again." in once


def test_machine_is_untouched_when_the_platform_shows_it_no_more_but_it_beats() -> None:
    """CP 4.14: an empty listing of a degraded control plane is no end."""
    world = World()
    controller = running(world)
    world.alive[0].visible_s = world.now_s + 600
    controller.spend(20)

    assert controller.phase(A) is Phase.RUNNING
    assert Call.STOP not in world.calls
    assert len(world.machines) == 1


def test_machine_is_untouched_when_a_listing_shows_none_of_its_beats() -> None:
    """CP 4.14: one was put and one removed while the listing was made; it beats all the same."""
    world = World()
    controller = running(world)
    lease = controller.lease(A)._replace(deadline_s=world.now_s + 1e6)
    signs = Signs(None, 0, 1, lease.machine, None)

    after, actions = step(lease, Seen(machines=(), signs=signs), world.now_s + 7200.0, TERMS)

    assert after.phase is Phase.RUNNING
    assert actions == ()


def test_machine_is_untouched_when_another_controller_finds_it_beating() -> None:
    """CP 4.19: what beats within its deadline is nobody else's to end."""
    world = World()
    running(world)
    other = Controller(world)
    other.want("b" * 64)
    other.spend(20)

    assert Call.STOP not in world.calls
    assert len(world.alive) == 2


def test_end_is_noticed_within_minutes_when_a_machine_is_taken_away() -> None:
    """CP 4.31: missing beats and a missing machine together are enough, long before the stall."""
    world = World()
    controller = running(world)
    world.alive[0].end()
    begin_s = world.now_s

    lease = controller.until(A, Phase.TERMINATING)

    assert lease.end is End.INTERRUPTED
    assert world.now_s - begin_s <= 5 * TERMS.beat_s


def test_machine_is_ended_when_it_is_silent_whatever_the_platform_says() -> None:
    """CP 4.31: a machine that hangs costs until the stall, and not until its deadline."""
    world = World()
    controller = running(world)
    world.alive[0].is_mute = True
    begin_s = world.now_s

    lease = controller.until(A, Phase.TERMINATING)

    assert lease.end is End.STALLED
    assert TERMS.stall_s <= world.now_s - begin_s <= TERMS.stall_s + 120
