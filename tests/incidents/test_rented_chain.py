"""Chains of machines that never came to an end, or to a result that nobody had.

Incident: machines were started again without any progress until the money was gone, a limit was
found out about by a refused create, and a job whose end nobody saw was called done
(background-agents 1894, mhcflurry 392, stardag 245, makermodslab 34; CP 4: 17, 22, 23, 24).

Guards: `quantgrid.rental.chain.final` bounds links, interruptions and failures apart, and
`quantgrid.rental.steps.step` takes for a success only an exit record with its nonce, code 0 and
records that were verified.
"""

from quantgrid.rental.lease import End, Phase
from quantgrid.rental.register import sign_key
from rented_controller import Controller
from rented_world import LIMITS, TERMS, World

A = "a" * 64


def ended(world: World, **terms: int) -> tuple[Controller, int]:
    """A controller whose lease came to an end, and how many machines that took."""
    controller = Controller(world)
    controller.want(A, TERMS._replace(**terms))
    controller.until(A, Phase.ERROR, Phase.SUCCESS, rounds=3000)
    assert world.alive == []
    return controller, len(world.machines)


def test_chain_ends_when_two_links_bring_no_newer_checkpoint() -> None:
    """CP 4.17: two machines without progress are enough."""
    world = World()
    world.work = lambda _: End.CAP

    controller, machines = ended(world, max_links=50)

    assert (controller.lease(A).end, machines) == (End.NO_PROGRESS, 2)


def test_chain_goes_on_when_each_link_brings_a_checkpoint() -> None:
    """CP 4.17 the other way: progress is paid for, up to the links that were planned."""
    world = World()

    def work(_: object) -> End:
        world.checkpoints[A[:12]] = world.checkpoints.get(A[:12], 0) + 1
        return End.CAP

    world.work = work
    controller, machines = ended(world, max_links=5)

    assert (controller.lease(A).end, machines) == (End.CAP, 5)


def test_machine_lives_no_longer_than_the_cap_when_its_job_is_longer() -> None:
    """CP 4.22: a week is planned as a chain, and no create asks for more than the cap."""
    world = World()
    controller = Controller(world)
    controller.want(A, TERMS._replace(run_s=604_800.0))

    controller.until(A, Phase.RUNNING)

    (machine,) = world.alive
    assert machine.order.deadline_s - machine.begin_s <= LIMITS.cap_s


def test_interruptions_are_bounded_when_the_platform_takes_every_machine() -> None:
    """CP 4.23: interruptions eat no failures, and have a bound of their own."""
    world = World()

    def taken(machine: object) -> None:
        world.alive[0].end()

    world.work = taken
    controller, machines = ended(world, max_interruptions=3)
    lease = controller.lease(A)

    assert (lease.end, machines) == (End.INTERRUPTED, 4)
    assert (lease.interruptions, lease.failures, lease.links) == (4, 0, 0)


def test_end_is_an_interruption_when_no_record_says_more() -> None:
    """CP 4.24: a machine that is gone without an exit record is never a success."""
    world = World()
    world.good_records.add(A[:12])
    world.work = lambda machine: machine.end()
    controller, _ = ended(world, max_interruptions=0)

    assert controller.phase(A) is Phase.ERROR


def test_success_needs_verified_records_when_a_machine_says_that_it_is_done() -> None:
    """CP 5.2: code 0 and the word "done" are not believed without the records."""
    world = World()
    world.work = lambda _: End.DONE
    controller, machines = ended(world, max_failures=1)

    assert (controller.lease(A).end, machines) == (End.UNVERIFIED, 2)


def test_success_needs_its_own_nonce_when_a_record_lies_there() -> None:
    """CP 5.2: an exit record of another nonce says nothing about this machine."""
    world = World()
    world.good_records.add(A[:12])
    controller = Controller(world)
    controller.want(A)
    lease = controller.until(A, Phase.RUNNING)
    other = b'{"nonce": "ffffffffffff", "machine": "m0", "reason": "done", "code": 0, '
    other += b'"checkpoint": 0, "records": ["aaaaaaaaaaaa"]}'
    world.keys[sign_key(lease.nonce, "exit")] = other, world.now_s

    controller.spend(5)

    assert controller.phase(A) is Phase.RUNNING
