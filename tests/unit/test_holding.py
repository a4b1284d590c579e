"""Holds for as long as a job runs: taken, waited for, kept by beats, let go."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from clocked_store import FP, terms
from quantgrid import layout
from quantgrid.clock import SystemClock
from quantgrid.errors import HoldRefusal, PlatformFault
from quantgrid.hold import Chain, Hold
from quantgrid.holding import Starter
from quantgrid.store.folder import FolderStore

BOUND_S = 180.0
OTHER = "e" * 64
LONG_S = 60.0


def starter(
    store: FolderStore,
    *,
    ttl_s: float = LONG_S,
    patience_s: float = BOUND_S,
    on_lost: Callable[[], None] = lambda: None,
) -> Starter:
    """Somebody who wants to compute."""
    return Starter(store, SystemClock(), terms()._replace(ttl_s=ttl_s), patience_s, on_lost)


def wanted(store: FolderStore, *fingerprints: str) -> Mapping[str, Callable[[], bool]]:
    """Fingerprints whose records are keys of the store."""
    return {each: lambda each=each: store.find(each) is not None for each in fingerprints}


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    is_so, bell = threading.Event(), threading.Event()
    for _ in range(int(BOUND_S / 0.01)):
        if true():
            is_so.set()
            break
        bell.wait(0.01)
    assert is_so.is_set()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store."""
    return FolderStore(tmp_path / "archive")


def test_holding_leaves_nothing_when_the_records_are_there(store: FolderStore) -> None:
    """All that is wanted is held while the block runs, and let go when it is done."""
    with starter(store).holding(wanted(store, FP, OTHER)) as holds:
        assert set(holds) == {FP, OTHER}
        for fingerprint, hold in holds.items():
            newest = Chain(store, fingerprint).newest()
            assert newest == hold.claim
            store.put_once(fingerprint, b"record")

    assert list(store.list(layout.HOLDS)) == []


def test_holding_beats_when_the_block_runs_long(store: FolderStore) -> None:
    """A hold outlives its time-to-live many times over while its holder lives."""
    with starter(store, ttl_s=0.6).holding(wanted(store, FP)) as holds:
        first = holds[FP].claim.slot
        chain = Chain(store, FP)

        def is_three_lives_old() -> bool:
            seen = chain.find_live(holds[FP].claim)
            assert seen is not None
            return seen.slot > first + 18

        wait_for(is_three_lives_old)
        holds[FP].refuse_lost()


def test_holding_lets_go_when_the_block_fails(store: FolderStore) -> None:
    """Without a record the hold is over at once, and whoever comes next has a larger token."""
    with pytest.raises(SystemExit), starter(store).holding(wanted(store, FP)):
        raise SystemExit(75)

    with starter(store, patience_s=0).holding(wanted(store, FP)) as holds:
        assert holds[FP].claim.token == 2


def test_holding_leaves_when_it_has_no_patience(store: FolderStore) -> None:
    """It names the holder, and lets go of what it held already."""
    with starter(store).holding(wanted(store, FP)):
        late = starter(store, patience_s=0).holding(wanted(store, OTHER, FP))
        with pytest.raises(HoldRefusal, match="is computed elsewhere"), late:
            raise AssertionError("nobody may compute here")

        newest = Chain(store, OTHER).newest()
        assert newest is not None
        assert Chain(store, OTHER).find_live(newest) is None


def test_holding_has_nothing_to_do_when_the_other_published(
    store: FolderStore, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who waits gets the record of the other holder, and is told for whom it waits."""
    got: list[Mapping[str, Hold]] = []

    def wait() -> None:
        with starter(store).holding(wanted(store, FP)) as holds:
            got.append(dict(holds))

    said = ""

    def is_told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "waiting:" in said

    with starter(store).holding(wanted(store, FP)):
        waiter = threading.Thread(target=wait)
        waiter.start()
        wait_for(is_told)
        store.put_once(FP, b"record")
    waiter.join(BOUND_S)

    assert got == [{}]
    assert "n0-t1k-s0/rtn is computed elsewhere by process" in said
    assert list(store.list(layout.HOLDS)) == []


def test_holding_takes_over_when_the_other_gave_up(store: FolderStore) -> None:
    """Who waits computes when the other one left without a record."""
    tokens: list[int] = []

    def wait() -> None:
        with starter(store).holding(wanted(store, FP)) as holds:
            tokens.append(holds[FP].claim.token)

    with starter(store).holding(wanted(store, FP)):
        waiter = threading.Thread(target=wait)
        waiter.start()
    waiter.join(BOUND_S)

    assert tokens == [2]


def test_holding_holds_nothing_when_the_record_came_before_the_claim(store: FolderStore) -> None:
    """A claim after the record of another one is let go, and nothing is computed twice."""
    store.put_once(FP, b"record")

    with starter(store).holding(wanted(store, FP)) as holds:
        assert not holds

    assert list(store.list(layout.HOLDS)) == []


def test_holding_stops_the_work_when_the_hold_was_lost(store: FolderStore) -> None:
    """Whoever was superseded hears it while it computes; the refusal is what its caller sees."""
    lost = threading.Event()

    def compute() -> None:
        with starter(store, ttl_s=0.6, on_lost=lost.set).holding(wanted(store, FP)) as holds:
            claim = holds[FP].claim
            taker = claim._replace(token=2, holder=terms("/taker").holder)
            store.put_once(layout.hold_key(FP, 2, layout.HOLD_CLAIM), taker.to_bytes())
            assert lost.wait(BOUND_S)
            raise SystemExit(143)

    with pytest.raises(HoldRefusal, match="lost the hold") as caught:
        compute()
    assert "in /taker" in str(caught.value)
    assert isinstance(caught.value.__cause__, SystemExit)


class _Deaf(FolderStore):
    """A store that does not answer for a while."""

    __slots__ = ("questions",)
    questions: int

    def put_once(self, key: str, data: bytes) -> bool:
        if "beat" in key and self.questions:
            self.questions -= 1
            raise PlatformFault("no answer")
        return super().put_once(key, data)


def test_holding_goes_on_when_the_store_does_not_answer(tmp_path: Path) -> None:
    """A beat that did not get through is no lost hold; the next one may."""
    store = _Deaf(tmp_path)
    store.questions = 3
    lost = threading.Event()

    with starter(store, ttl_s=0.6, on_lost=lost.set).holding(wanted(store, FP)):
        wait_for(lambda: any("beat" in key for key in store.list(layout.HOLDS)))

    assert store.questions == 0
    assert not lost.is_set()
