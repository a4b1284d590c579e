"""What is ended is ours, meant and confirmed; what is not is left alone."""

from quantgrid.rental.clearing import Patience, end_leases, end_machines, look
from quantgrid.rental.lease import Phase
from quantgrid.rental.port import Name
from quantgrid.rental.register import Register
from rented_controller import Controller
from rented_world import Line, MemoryPlatform, MemoryStore, Rented, World

A, B = "a" * 64, "b" * 64


def _patience(world: World, looks: int = 60) -> Patience:
    """Time goes on in the world while somebody waits; so many looks at most."""
    left = [looks]

    def sleep(_: float) -> None:
        left[0] -= 1
        world.advance(30.0)

    class Bounded(Patience):
        def rounds(self):  # type: ignore[no-untyped-def]
            while left[0] > 0:
                yield left[0]
                self.sleep(self.every_s)

    return Bounded(0.0, 0.0, sleep)


def _stray(world: World, name: Name) -> Rented:
    """A machine that nobody's lease tells of."""
    found = Controller(world)
    found.want(A)
    found.until(A, Phase.RUNNING)
    stray = world.create(world.alive[0].order._replace(name=name))
    stray.ready_s = float("inf")  # its first process would end it: no lease names it
    return stray


def test_all_leases_are_ended_and_confirmed_when_another_controller_makes_new_ones() -> None:
    """A controller that still runs wants a second machine meanwhile; that is ended as well."""
    world = World()
    runs = Controller(world)
    runs.want(A)
    runs.until(A, Phase.RUNNING)
    stops = Controller(world)
    patience = _patience(world)
    sleep, wanted = patience.sleep, iter([B])

    def busy(seconds: float) -> None:
        for subject in wanted:
            runs.want(subject)
        runs.go()
        sleep(seconds)

    left = end_leases(stops.rounds, lambda _: True, patience._replace(sleep=busy))

    assert left == {}
    assert world.alive == []
    assert {runs.phase(A), runs.phase(B)} == {Phase.ERROR}
    books = runs.books()
    assert {each.nonce for each in books.costs} == {each.nonce for each in books.promises}


def test_leases_of_others_are_left_alone() -> None:
    """Only what is meant is cancelled."""
    world = World()
    runs = Controller(world, by="theirs")
    for subject in (A, B):
        runs.want(subject)
        runs.until(subject, Phase.RUNNING)

    left = end_leases(Controller(world).rounds, lambda each: each.subject == A, _patience(world))

    assert left == {}
    assert [each.name.subject for each in world.alive] == [B[:12]]


def test_what_is_not_over_in_time_is_named() -> None:
    """A platform that does not answer ends nothing, and that is said."""
    world = World()
    runs = Controller(world)
    runs.want(A)
    runs.until(A, Phase.RUNNING)
    world.down = {"stop"}  # type: ignore[arg-type]

    left = end_leases(Controller(world).rounds, lambda _: True, _patience(world, looks=10))

    assert set(left) == {A}
    assert len(world.alive) == 1


def test_a_machine_that_no_lease_wants_is_ended_and_its_neighbour_kept() -> None:
    """The stray one is gone and looked for twice; the leased and the foreign one live."""
    world = World()
    line = Line(world)
    register = Register(MemoryStore(line))
    stray = _stray(world, Name(register.owner(), "c" * 12, 1, "1" * 12))
    foreign = _stray(world, Name("00000000", "d" * 12, 1, "2" * 12))
    platform = MemoryPlatform(line)

    found = look(platform, register)
    meant = [each for each in found if each.is_reapable]
    assert [each.machine.id for each in meant] == [stray.id]
    assert len(found) == 2
    assert end_machines(platform, register, meant, _patience(world)) == ()

    assert stray.ended_s is not None
    assert foreign.ended_s is None
    assert len(world.alive) == 2


def test_a_machine_whose_lease_cannot_be_read_is_kept() -> None:
    """A damaged state is no proof that nobody wants the machine."""
    world = World()
    runs = Controller(world)
    runs.want(A)
    runs.until(A, Phase.RUNNING)
    newest = max(key for key in world.keys if key.startswith(f"rental/leases/{A}"))
    world.keys[newest] = b"torn", world.now_s
    world.advance(3000.0)
    line = Line(world)

    (found,) = look(MemoryPlatform(line), Register(MemoryStore(line)))

    assert not found.is_reapable
    assert found.why == "its lease cannot be read"


def test_a_machine_that_beats_again_is_spared() -> None:
    """What was silent at the first look and beats at the second one is not ended."""
    world = World()
    line = Line(world)
    register = Register(MemoryStore(line))
    stray = _stray(world, Name(register.owner(), "c" * 12, 1, "1" * 12))
    platform = MemoryPlatform(line)
    meant = [each for each in look(platform, register) if each.is_reapable]
    assert meant
    stray.put("beat", "00000001", "0")

    left = end_machines(platform, register, meant, _patience(world, looks=3))

    assert [each.id for each in left] == [stray.id]
    assert stray.ended_s is None
