"""Claims in a store: who may compute a fingerprint, and who may publish it."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from clocked_store import FP, SLOT_S, TTL_S, ClockedStore, held, seen, terms
from quantgrid import layout
from quantgrid.errors import DataFault, FailureClass, HoldRefusal, PlatformFault
from quantgrid.held import is_known_dead
from quantgrid.hold import MACHINE, Chain, Hold, clear, live, new_holder


@pytest.fixture
def store(tmp_path: Path) -> ClockedStore:
    """An empty store."""
    return ClockedStore(tmp_path / "archive")


@pytest.fixture
def chain(store: ClockedStore) -> Chain:
    """The holds of one fingerprint."""
    return Chain(store, FP)


def test_hold_names_its_holder_when_somebody_else_starts(store: ClockedStore, chain: Chain) -> None:
    """A second starter learns who, where, since when and the last beat, and makes no claim."""
    first = held(chain.take(terms("/one")))
    store.advance(SLOT_S)
    first.beat()

    met = seen(chain.take(terms("/two")))

    assert met.claim == first.claim
    said = str(met.refusal())
    holder = first.claim.holder
    assert f"process {holder.process} on {holder.host} in /one" in said
    assert "since 2026-11-30T12:00:00Z, last beat 2026-11-30T12:00:10Z" in said
    assert "n0-t1k-s0/rtn is computed elsewhere" in said
    assert chain.newest() == first.claim


def test_hold_refusal_is_no_failure_when_it_is_classed() -> None:
    """Who leaves a held cell to its holder has not failed, and nobody remembers it."""
    assert HoldRefusal.exit_code == 78
    assert HoldRefusal.failure_class is FailureClass.HELD
    assert not FailureClass.HELD.is_remembered


def test_hold_stays_when_its_holder_beats(store: ClockedStore, chain: Chain) -> None:
    """A holder that beats in time keeps its hold for as long as it wants."""
    first = held(chain.take(terms()))

    for _ in range(30):
        store.advance(0.9 * TTL_S)
        first.beat()
        assert seen(chain.take(terms())).claim == first.claim

    first.refuse_lost()


def test_hold_is_taken_over_when_silent_for_its_ttl(store: ClockedStore, chain: Chain) -> None:
    """Silence ends a hold after its time-to-live and not before; the token grows."""
    first = held(chain.take(terms()))
    store.advance(TTL_S)
    assert seen(chain.take(terms())).claim == first.claim

    store.advance(SLOT_S)
    second = held(chain.take(terms("/two")))

    assert second.claim.token == first.claim.token + 1
    assert second.facts() == {"token": 2, "holder": second.claim.holder.id}
    second.refuse_lost()
    with pytest.raises(HoldRefusal, match="lost the hold of n0-t1k-s0/rtn") as caught:
        first.refuse_lost()
    assert "in /two" in str(caught.value)


def test_hold_is_still_its_holders_when_silent_and_nobody_took_over(
    store: ClockedStore, chain: Chain
) -> None:
    """Work is not thrown away because its holder slept, as long as nobody else began."""
    first = held(chain.take(terms()))
    store.advance(10 * TTL_S)

    first.beat()

    first.refuse_lost()
    assert seen(chain.take(terms())).claim == first.claim


def test_beat_refuses_when_somebody_took_over(store: ClockedStore, chain: Chain) -> None:
    """A holder that comes back learns it at its next beat, and revives nothing."""
    first = held(chain.take(terms()))
    store.advance(2 * TTL_S)
    second = held(chain.take(terms()))

    with pytest.raises(HoldRefusal, match="lost the hold"):
        first.beat()

    assert seen(chain.take(terms())).claim == second.claim


def test_hold_is_free_at_once_when_its_holder_is_known_dead(chain: Chain) -> None:
    """Better evidence than silence saves the wait: a lock that the kernel freed."""
    first = held(chain.take(terms()))

    second = held(chain.take(terms(is_dead=lambda holder: holder == first.claim.holder)))

    assert second.claim.token == 2


@pytest.mark.parametrize(
    ("first", "second", "is_free"),
    [
        ("modal lease-a 1", "modal lease-a 2", True),
        ("modal lease-a 1", "modal lease-a 1", False),
        ("modal lease-a 1", "modal lease-b 2", False),
        ("modal lease-a 1", "", False),
        ("", "", False),
    ],
)
def test_hold_is_free_at_once_when_the_lease_has_another_machine(
    chain: Chain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    second: str,
    is_free: bool,
) -> None:
    """A lease has one machine at a time, so the one before is gone; of others nobody knows."""
    monkeypatch.setenv(MACHINE, first)
    held(chain.take(terms()))
    monkeypatch.setenv(MACHINE, second)
    asker = new_holder("/two", "other", "attempt")

    taken = chain.take(terms(is_dead=partial(is_known_dead, tmp_path, asker)))

    assert isinstance(taken, Hold) is is_free


def test_hold_is_free_at_once_when_released(chain: Chain) -> None:
    """Without a record the next token is larger, so that no token is given twice."""
    held(chain.take(terms())).release(is_done=False)

    assert held(chain.take(terms())).claim.token == 2


def test_hold_leaves_nothing_when_released_with_a_record(store: ClockedStore, chain: Chain) -> None:
    """A fingerprint that is done needs no holds: those of dead holders go as well."""
    held(chain.take(terms())).beat()
    store.advance(2 * TTL_S)
    second = held(chain.take(terms()))
    for _ in range(20):
        store.advance(SLOT_S)
        second.beat()

    second.release(is_done=True)

    assert list(store.list(layout.HOLDS)) == []


def test_hold_is_lost_when_another_finished_and_cleared(store: ClockedStore, chain: Chain) -> None:
    """A holder that slept through a whole take-over is told, although no claim is left to see."""
    first = held(chain.take(terms()))
    store.advance(2 * TTL_S)
    held(chain.take(terms())).release(is_done=True)

    with pytest.raises(HoldRefusal, match="whose result is in the archive"):
        first.refuse_lost()


def test_hold_is_taken_when_claims_of_a_cleared_chain_lie_above(
    store: ClockedStore, chain: Chain
) -> None:
    """Whoever died while it cleared a chain does not stop those who come later."""
    held(chain.take(terms()))
    store.advance(2 * TTL_S)
    held(chain.take(terms()))
    store.delete(layout.hold_key(FP, 1, layout.HOLD_CLAIM))
    store.advance(2 * TTL_S)

    third = held(chain.take(terms()))

    assert third.claim.token == 3
    third.refuse_lost()


def test_hold_keeps_few_beats_when_held_for_long(store: ClockedStore, chain: Chain) -> None:
    """A day of beats does not fill the store."""
    first = held(chain.take(terms()))

    for _ in range(100):
        store.advance(SLOT_S)
        first.beat()

    assert len(list(store.list(layout.HOLDS))) <= 14


class _Slow(ClockedStore):
    """Its readers are frozen for a while at their first question about a beat."""

    __slots__ = ("frozen_s", "holder")
    frozen_s: float
    holder: Hold

    def find(self, key: str) -> bytes | None:
        if "beat" in key and self.frozen_s:
            self.advance(self.frozen_s)
            self.frozen_s = 0.0
            for _ in range(40):
                self.advance(SLOT_S)
                self.holder.beat()
        return super().find(key)


def test_hold_stays_when_the_starter_was_frozen_while_it_looked(tmp_path: Path) -> None:
    """A starter that froze between its questions takes gone beats for silence only once."""
    store = _Slow(tmp_path)
    store.frozen_s = 0.0
    first = held(Chain(store, FP).take(terms()))
    store.advance(3 * TTL_S)
    first.beat()
    store.holder, store.frozen_s = first, SLOT_S

    met = seen(Chain(store, FP).take(terms()))

    assert met.claim == first.claim


class _Losing(ClockedStore):
    """A store that does what it is asked and loses the reply."""

    was_done = True

    def put_once(self, key: str, data: bytes) -> bool:
        if self.was_done:
            super().put_once(key, data)
        raise PlatformFault("the reply was lost")


def test_hold_is_got_when_the_reply_to_its_claim_was_lost(tmp_path: Path) -> None:
    """A claim that stands is a claim; one that does not is the store's fault."""
    store = _Losing(tmp_path)

    assert held(Chain(store, FP).take(terms())).claim.token == 1

    store.was_done = False
    with pytest.raises(PlatformFault, match="reply was lost"):
        Chain(store, "e" * 64).take(terms())


def test_hold_is_a_fault_when_its_claim_is_damaged(store: ClockedStore, chain: Chain) -> None:
    """Nobody guesses who holds what; the message names the key."""
    key = layout.hold_key(FP, 1, layout.HOLD_CLAIM)
    store.put_once(key, b'{"version": 1}')

    with pytest.raises(DataFault, match="claim of a hold cannot be read") as caught:
        chain.take(terms())
    assert key in str(caught.value)


def test_live_finds_only_holds_of_the_living_when_asked(store: ClockedStore) -> None:
    """A plan sees who computes now: no dead holders, nothing released, nothing it did not ask."""
    dead, gone, busy, other = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
    held(Chain(store, dead).take(terms()))
    store.advance(2 * TTL_S)
    held(Chain(store, gone).take(terms())).release(is_done=False)
    holding = held(Chain(store, busy).take(terms()))
    held(Chain(store, other).take(terms()))

    found = live(store, {dead, gone, busy})

    assert {name: each.claim for name, each in found.items()} == {busy: holding.claim}


def test_clear_removes_holds_when_their_record_is_there(store: ClockedStore) -> None:
    """What the dead left beside a finished record goes; every other hold stays."""
    done, busy = "a" * 64, "b" * 64
    held(Chain(store, done).take(terms())).beat()
    holding = held(Chain(store, busy).take(terms()))

    clear(store, [done])

    assert Chain(store, done).newest() is None
    holding.refuse_lost()


class _Dying(ClockedStore):
    """Its second removal is one too many."""

    __slots__ = ("removed",)
    removed: list[str]

    def delete(self, key: str) -> None:
        if self.removed:
            raise PlatformFault("killed here")
        self.removed.append(key)
        super().delete(key)


def test_hold_is_lost_when_its_taker_died_while_it_cleared(tmp_path: Path) -> None:
    """Claims go in the order of their tokens: the one that is left is never the superseded one."""
    store = _Dying(tmp_path)
    store.removed = []
    first = held(Chain(store, FP).take(terms()))
    store.advance(2 * TTL_S)
    held(Chain(store, FP).take(terms())).release(is_done=True)
    assert len(store.removed) == 1

    with pytest.raises(HoldRefusal, match="lost the hold"):
        first.refuse_lost()


def test_claim_goes_through_its_bytes_when_read_back(chain: Chain) -> None:
    """What is stored is what is read."""
    claim = held(chain.take(terms())).claim

    assert claim.parse(claim.to_bytes(), "here") == claim
    assert claim.slot_at(datetime.fromisoformat("2026-11-30T12:00:09Z")) == claim.slot
    assert timedelta(seconds=claim.slot_s) * 6 == timedelta(seconds=TTL_S)
