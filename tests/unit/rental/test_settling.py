"""The ledger becomes the platform's bill as soon as the platform says what a machine did cost."""

import math

from quantgrid.rental.errors import Call
from quantgrid.rental.lease import End, Phase
from rented_controller import Controller
from rented_world import ACCOUNT, Rented, World

A = "a" * 64


def paid(world: World) -> Controller:
    """A controller whose one lease came to its end, with its cost written down."""

    def work(machine: Rented) -> End:
        world.good_records.add(machine.name.subject)
        return End.DONE

    world.work = work
    controller = Controller(world)
    controller.want(A)
    controller.until(A, Phase.SUCCESS)
    return controller


def spent(controller: Controller) -> int:
    """What the ledger says that was spent."""
    return sum(span.cost for span in controller.books().spent())


def test_ledger_is_the_bill_when_the_platform_said_it() -> None:
    """To the micro-dollar, which our own measure is not."""
    world = World()
    controller = paid(world)
    controller.spend(2)

    books = controller.books()
    assert not books.unbilled()
    assert spent(controller) == world.bill() == math.ceil(world.bill())
    assert sum(span.cost for span in books._replace(bills=()).spent()) > world.bill()


def test_our_measure_counts_when_the_platform_says_nothing() -> None:
    """It is asked again and again, ever more rarely, and by a later controller as well."""
    world = World()
    world.down = {Call.STATEMENTS}
    controller = paid(world)
    controller.spend(40, step_s=60.0)

    asked = world.calls.count(Call.STATEMENTS)
    assert 3 <= asked <= 10
    assert controller.books().unbilled()
    assert spent(controller) > world.bill()

    world.down = set()
    Controller(world).go()
    assert spent(controller) == world.bill()


def test_another_account_is_not_asked_for_a_bill() -> None:
    """It would say that there never was such a machine, and the cost were forgotten."""
    world = World()
    world.down = {Call.STATEMENTS}
    controller = paid(world)
    before = spent(controller)
    world.down, world.account = set(), "other/main"

    Controller(world).spend(3)
    assert spent(controller) == before
    assert controller.books().unbilled()

    world.account = ACCOUNT
    Controller(world).go()
    assert spent(controller) == world.bill()


def test_nobody_is_asked_for_ever() -> None:
    """What no platform said in three days is not asked for any more."""
    world = World()
    world.down = {Call.STATEMENTS}
    controller = paid(world)
    world.advance(73 * 3600.0)
    count = world.calls.count(Call.STATEMENTS)

    Controller(world).spend(3)
    assert world.calls.count(Call.STATEMENTS) == count
    assert controller.books().unbilled()
