"""Several computers, one fingerprint, and a nemesis between every two calls of the store.

Every actor is a thread that stops before each call until the machine lets it go on.  Not letting
it go on is a freeze; the machine also kills, loses replies, lets calls arrive late and shows old
listings.  The order of all calls is Hypothesis's, so that a failure is found again and shrunk.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from clocked_store import FP, SLOT_S, TTL_S, terms
from quantgrid import layout
from quantgrid.errors import HoldRefusal, PlatformFault
from quantgrid.hold import Chain, Hold
from quantgrid.store import Entry

RECORD = "record"
BOUND_S = 180.0
NUMBERS = st.integers(0, 5)


class Killed(BaseException):
    """What ends the thread of a killed actor."""


class World:
    """The keys of a store and its clock; what happened, in order."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.now_s = datetime(2026, 11, 30, tzinfo=UTC).timestamp()
        self.late: list[tuple[str, bytes, Actor]] = []
        self.old_listing: list[str] | None = None
        self.publisher = 0
        """Token of the hold under which the record was made."""
        self.asked: dict[str, float] = {}
        """Key to the time that its maker had asked for before it made it."""
        self.signs: dict[str, list[tuple[float, float]]] = {}
        """Holder id to its signs of life: when it asked for the time, when the sign arrived."""
        self.unjust: list[str] = []

    def create(self, key: str, data: bytes, by: "Actor") -> bool:
        if key in self.keys:
            return False
        self._watch(key, by)
        if key == RECORD:
            self.publisher = by.token
        self.keys[key] = data
        return True

    def _watch(self, key: str, by: "Actor") -> None:
        _, token, part = layout.hold_parts(key)
        if part == layout.HOLD_CLAIM:
            before = layout.hold_key(FP, token - 1, layout.HOLD_CLAIM)
            if before in self.keys:
                self._judge(token - 1, self.keys[before].decode())
            self.signs[by.holder] = [(self.asked[key], self.now_s)]
        elif part.startswith("beat"):
            self.signs[by.holder].append((self.asked[key], self.now_s))

    def _judge(self, token: int, claim: str) -> None:
        """A holder that beat in time and did not let go must not be superseded before a record.

        Whose release was cut off after its record leaves a claim without beats, which harms nobody.
        """
        if RECORD in self.keys or layout.hold_key(FP, token, layout.HOLD_OVER) in self.keys:
            return
        signs = next(times for holder, times in self.signs.items() if f'"{holder}"' in claim)
        silences, newest_s = [], signs[0][0]
        for asked_s, arrived_s in [*signs, (self.now_s, self.now_s)]:
            silences.append(arrived_s - newest_s)
            newest_s = max(newest_s, asked_s)
        if max(silences) <= TTL_S:
            self.unjust.append(claim)


class Actor:
    """A computer with its own way to the store: takes the hold, beats, publishes, lets go."""

    address = "memory"

    def __init__(self, world: World, beats: int) -> None:
        self.world, self.beats = world, beats
        self.terms = terms()
        self.holder = self.terms.holder.id
        self.fate = "go"
        self.asked_s = 0.0
        self.hold: Hold | None = None
        self.token = 0
        self.published = self.was_fenced = self.lost_before_fence = False
        self.failure: BaseException | None = None
        self._may, self._is_waiting = threading.Semaphore(0), threading.Semaphore(0)
        self.is_over = False
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        assert self._is_waiting.acquire(timeout=BOUND_S)

    # -- the machine's side -----------------------------------------------------------------------

    def step(self, fate: str = "go") -> None:
        """Let one call through, to a fate; returns when the next one waits or all is over."""
        self.fate = fate
        self._may.release()
        assert self._is_waiting.acquire(timeout=BOUND_S)

    def steps(self, calls: int) -> None:
        """Let some calls through."""
        for _ in range(calls):
            if not self.is_over:
                self.step()

    def end(self) -> None:
        """Kill it, wherever it is."""
        if not self.is_over:
            self.step("die")
        self._thread.join(BOUND_S)

    # -- the actor's side -------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._compute()
        except (Killed, HoldRefusal, PlatformFault):
            pass
        except BaseException as error:  # noqa: BLE001 - the machine raises it in its own thread
            self.failure = error
        self.is_over = True
        self._is_waiting.release()

    def _compute(self) -> None:
        got = Chain(self, FP).take(self.terms)
        if not isinstance(got, Hold):
            return
        if self.find(RECORD) is not None:
            got.release(is_done=True)
            return
        self.hold, self.token = got, got.claim.token
        for _ in range(self.beats):
            with suppress(PlatformFault, HoldRefusal):  # computing goes on, whatever beats say
                got.beat()
        self.lost_before_fence = self.is_superseded()
        got.refuse_lost()
        self.was_fenced = True
        self.published = self.put_once(RECORD, self.holder.encode())
        self.hold = None
        got.release(is_done=self.find(RECORD) is not None)

    def is_superseded(self) -> bool:
        """Whether somebody took over: a later claim, a later holder's result, the own claim gone.

        The result of an earlier holder that was stopped between its fence and its put is none of
        these: who took over from that one computes on, and finds the record when it publishes.
        """
        assert self.hold is not None
        own, later = (
            layout.hold_key(FP, token, layout.HOLD_CLAIM) for token in (self.token, self.token + 1)
        )
        is_gone = self.world.keys.get(own) != self.hold.claim.to_bytes()
        return is_gone or later in self.world.keys or self.world.publisher > self.token

    def _call(self, act: Callable[[], Any], *, is_late: Callable[[], None] | None = None) -> Any:
        self._is_waiting.release()
        self._may.acquire()
        if self.fate == "die":
            raise Killed
        if self.fate == "refused":
            raise PlatformFault("no connection")
        if self.fate == "late" and is_late:
            is_late()
            raise PlatformFault("no reply yet")
        value = act()
        if self.fate == "lost":
            raise PlatformFault("the reply was lost")
        return value

    # -- the store, as this actor reaches it ------------------------------------------------------

    def find(self, key: str) -> bytes | None:
        found: bytes | None = self._call(lambda: self.world.keys.get(key))
        return found

    def put_once(self, key: str, data: bytes) -> bool:
        self.world.asked.setdefault(key, self.asked_s)
        done: bool = self._call(
            lambda: self.world.create(key, data, self),
            is_late=lambda: self.world.late.append((key, data, self)),
        )
        return done

    def delete(self, key: str) -> None:
        self._call(lambda: self.world.keys.pop(key, None))

    def list(self, prefix: str) -> Iterator[str]:
        old = self.world.old_listing
        keys = self._call(lambda: list(self.world.keys) if old is None else old)
        yield from (key for key in keys if key.startswith(f"{prefix}/"))

    def now(self) -> datetime:
        moment: datetime = self._call(lambda: datetime.fromtimestamp(self.world.now_s, UTC))
        self.asked_s = moment.timestamp()
        return moment

    def get(self, key: str) -> bytes:
        raise NotImplementedError(key)

    def size(self, key: str) -> int | None:
        raise NotImplementedError(key)

    def fetch(self, key: str, cache: Path) -> Path:
        raise NotImplementedError(key, cache)

    def put_file_once(self, key: str, source: Path) -> bool:
        raise NotImplementedError(key, source)

    def entries(self, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError(prefix)

    def clear_dead(self) -> int:
        return 0


class Holds(RuleBasedStateMachine):
    """Actors and nemesis."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.actors: list[Actor] = []

    @initialize()
    def begin(self) -> None:
        """Two computers start at once."""
        self.actors += [Actor(self.world, beats=3), Actor(self.world, beats=3)]

    @property
    def living(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.is_over]

    def _pick(self, number: int) -> Actor:
        """One of those that compute or start; a new one when there is none."""
        if not self.living:
            self.actors.append(Actor(self.world, beats=4))
        return self.living[number % len(self.living)]

    @rule(beats=st.integers(0, 8))
    def start(self, beats: int) -> None:
        """Another computer starts, when few are there."""
        if len(self.living) < 3:
            self.actors.append(Actor(self.world, beats))

    @rule(number=NUMBERS, calls=st.integers(1, 4))
    def go_on_a_little(self, number: int, calls: int) -> None:
        """One computer makes few calls while the others are frozen."""
        self._pick(number).steps(calls)

    @rule(number=NUMBERS, calls=st.integers(5, 12))
    def go_on(self, number: int, calls: int) -> None:
        """One computer makes many calls while the others are frozen."""
        self._pick(number).steps(calls)

    @rule(number=NUMBERS, fate=st.sampled_from(["lost", "refused", "late", "die"]))
    def fail(self, number: int, fate: str) -> None:
        """The next call of one computer goes wrong, or is its last."""
        self._pick(number).step(fate)

    @rule(number=NUMBERS)
    def arrive(self, number: int) -> None:
        """A call that was given up reaches the store all the same."""
        if self.world.late:
            self.world.create(*self.world.late.pop(number % len(self.world.late)))

    @rule(seconds=st.sampled_from([SLOT_S / 2, SLOT_S, TTL_S / 2, TTL_S, 2 * TTL_S]))
    def pass_time(self, seconds: float) -> None:
        """Time goes on for all."""
        self.world.now_s += seconds

    @rule(seconds=st.sampled_from([TTL_S, TTL_S + SLOT_S, 3 * TTL_S]))
    def freeze(self, seconds: float) -> None:
        """All are frozen for long, and a starter goes on until it holds or leaves."""
        self.world.now_s += seconds
        starters = [actor for actor in self.living if actor.hold is None]
        if not starters:
            starters = [Actor(self.world, beats=4)]
            self.actors += starters
        while starters[0].hold is None and not starters[0].is_over:
            starters[0].step()

    @rule()
    def age_listings(self) -> None:
        """From now on, listings show what there is now."""
        self.world.old_listing = list(self.world.keys)

    @invariant()
    def one_publication(self) -> None:
        """At most one computer is told that it published."""
        assert sum(actor.published for actor in self.actors) <= 1

    @invariant()
    def no_publication_of_the_lost(self) -> None:
        """Who was superseded before it asked its fence is refused."""
        assert not [a for a in self.actors if a.lost_before_fence and a.was_fenced]

    @invariant()
    def one_holder(self) -> None:
        """Of all that compute, at most one has a hold that its fence would let through."""
        computing = [a for a in self.living if a.hold is not None]
        assert sum(not actor.is_superseded() for actor in computing) <= 1

    @invariant()
    def no_unjust_take_over(self) -> None:
        """Who beats in time keeps its hold."""
        assert self.world.unjust == []

    @invariant()
    def no_defect(self) -> None:
        """No computer ends with an error that is not the protocol's."""
        for actor in self.actors:
            if actor.failure:
                raise actor.failure

    def teardown(self) -> None:
        """The dead are taken over: after a time-to-live whoever comes last computes or finds it."""
        for actor in self.actors:
            actor.end()
        self.world.now_s += TTL_S + 2 * SLOT_S
        self.world.late.clear()
        last = Actor(self.world, beats=0)
        last.steps(300)
        assert last.is_over
        assert RECORD in self.world.keys
        last.end()
        if last.failure:
            raise last.failure


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
TestHolds = pytest.mark.timeout(600)(Holds.TestCase)
TestHolds.settings = settings(max_examples=200, stateful_step_count=40, **COMMON)


@pytest.mark.nightly
class TestHoldsNightly(Holds.TestCase):  # type: ignore[name-defined,misc]
    """The same with many more steps."""

    settings = settings(max_examples=3000, stateful_step_count=80, **COMMON)


def test_hold_is_seen_when_the_listing_lacks_it() -> None:
    """A store whose listings are old hides a hold from nobody who starts."""
    world = World()
    world.old_listing = []
    first = Actor(world, beats=9)
    while first.hold is None:
        first.step()
    other = Actor(world, beats=0)
    while not other.is_over:
        other.step()

    assert other.hold is None
    assert not other.published
    assert RECORD not in world.keys
    first.end()


def test_lost_holder_is_refused_when_the_one_that_published_cleared_by_an_old_listing() -> None:
    """The claims of a finished chain go by name: an old listing leaves none between two others."""
    world = World()
    first, second, third = (Actor(world, beats=0) for _ in range(3))

    for actor in (first, second, third):
        while actor.hold is None:
            actor.step()
        if actor is first:
            world.old_listing = list(world.keys)
        world.now_s += TTL_S + SLOT_S
    third.steps(50)
    assert third.published
    for actor in (second, first):
        actor.steps(50)

    assert not second.was_fenced
    assert not first.was_fenced
