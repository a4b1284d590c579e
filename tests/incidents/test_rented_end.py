"""Machines that went on costing after somebody believed that they had ended.

Incident: a delete that failed was taken for done, a 404 of a fresh machine for its absence; a slow
one was replaced and not ended, one was lost when its start was cancelled (horizon 372, yomotsusaka
124, dstack 1133, 1142, 1551, 2068 and 2114, skypilot 2990, 4410, 7318 and 7336, bb 3568; CP 4: 4 to
10, 12, 18, 26, 27).

Guard: `quantgrid.rental.steps.step` asks again and again, and believes an end only when two looks
do not show the machine and it is older than machines may hide.
"""

import pytest

from quantgrid.rental.errors import Call
from quantgrid.rental.lease import End, Phase
from rented_controller import Controller
from rented_world import LIMITS, TERMS, World

A = "a" * 64


def running(world: World) -> Controller:
    """A controller whose one machine runs."""
    controller = Controller(world)
    controller.want(A)
    controller.until(A, Phase.RUNNING)
    return controller


def test_fresh_machine_is_ended_when_the_platform_says_that_it_is_not_there() -> None:
    """CP 4.4: cancelled while the platform does not show it yet, it is ended all the same."""
    world = World()
    world.hidden_s = LIMITS.visible_s - 5
    controller = Controller(world)
    controller.want(A)
    controller.until(A, Phase.BOOTING)
    controller.rounds.cancel(A)
    controller.spend(8, step_s=5.0)
    assert controller.phase(A) is Phase.TERMINATING

    controller.until(A, Phase.ERROR)

    assert world.alive == []


def test_slow_machine_is_ended_and_confirmed_when_it_never_boots() -> None:
    """CP 4.5: each machine that gives no sign is ended before the next one; two are enough."""
    world = World()
    world.boot_s = 1e9
    alive: list[int] = []
    world.created = lambda _: alive.append(len(world.alive))
    controller = Controller(world)
    controller.want(A)

    lease = controller.until(A, Phase.ERROR)

    assert (lease.end, alive) == (End.SLOW_BOOT, [1, 1])
    assert world.alive == []


def test_machine_is_one_when_its_image_takes_long() -> None:
    """CP 4.6: a slow pull within the bound is waited for."""
    world = World()
    world.boot_s = LIMITS.boot_s - 60
    controller = Controller(world)
    controller.want(A)

    controller.until(A, Phase.RUNNING)

    assert len(world.machines) == 1


def test_machine_is_asked_again_when_no_request_to_end_gets_through() -> None:
    """CP 4.7 and 4.12: the lease stays in TERMINATING, a person is told, and it ends at last."""
    world = World()
    controller = running(world)
    world.down = {Call.STOP}
    controller.rounds.cancel(A)
    controller.spend(100)

    assert controller.phase(A) is Phase.TERMINATING
    assert world.calls.count(Call.STOP) >= 90
    assert len(world.told) == 3
    assert "does not end" in world.told[0]
    assert controller.books().open() != ()

    world.down = set()
    controller.until(A, Phase.ERROR)
    assert world.alive == []


def test_machine_is_ended_when_its_job_is_done_and_its_own_end_failed() -> None:
    """CP 4.8: a container that would start again for ever ends with its job."""
    world = World()
    controller = running(world)
    world.good_records.add(A[:12])
    world.work = lambda _: End.DONE
    machine = world.alive[0]
    machine.end, is_stopped = (lambda: None), machine.end  # type: ignore[method-assign]
    controller.spend(4)
    assert world.alive == [machine]
    machine.end = is_stopped  # type: ignore[method-assign]

    assert controller.until(A, Phase.SUCCESS).end is End.DONE
    assert world.alive == []


def test_next_machine_resumes_when_somebody_deleted_the_first() -> None:
    """CP 4.9: a machine that is gone without a record was interrupted, and is counted so."""
    world = World()
    controller = running(world)
    world.checkpoints[A[:12]] = 7
    world.advance(30)
    world.alive[0].end()

    controller.spend(20)
    lease = controller.until(A, Phase.RUNNING)

    assert (lease.attempt, lease.interruptions, lease.failures) == (2, 1, 0)
    assert lease.checkpoint == 7


@pytest.mark.parametrize("fate", ["", "lost", "retry", "capacity"])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_nothing_is_left_when_cancelled_while_creating(fate: str, rounds: int) -> None:
    """CP 4.10 and 4.27: whenever it is cancelled, the lease ends and no machine is left."""
    world = World()
    world.fates = [fate]
    controller = Controller(world)
    controller.want(A)
    controller.is_slow = True
    controller.spend(rounds)
    controller.rounds.cancel(A)
    controller.spend(1)
    controller.make_calls()

    controller.until(A, Phase.ERROR)

    assert world.alive == []
    assert controller.books().open() == ()


def test_machine_is_found_when_the_configuration_names_other_things() -> None:
    """CP 4.18 and 4.26: a controller that wants something else ends what was left long ago."""
    world = World()
    running(world)
    world.alive[0].live = lambda: None  # type: ignore[method-assign]
    world.advance(TERMS.life_s + 600)
    other = Controller(world)
    other.want("b" * 64)

    other.until(A, Phase.ERROR)

    assert [m.name.subject for m in world.alive] == ["b" * 12]
