"""The register: created once, read in few calls, never in two minds about a lease."""

from pathlib import Path

import pytest

from clocked_store import ClockedStore
from quantgrid import layout
from quantgrid.errors import DataFault
from quantgrid.rental import register as keys
from quantgrid.rental.lease import End, Exit, Lease, Phase
from quantgrid.rental.register import Register, Where, exit_bytes, parse_exit, sign_key
from quantgrid.rental.spend import Bill, Cost, Promise
from rented_world import CANDIDATES

A, B = "a" * 64, "b" * 64


def lease(subject: str = A, phase: Phase = Phase.RUNNING) -> Lease:
    """A lease with a machine."""
    return Lease(
        subject, "n0/rtn", "paper", "memory", "lab/main", phase, 3.5, "me", 2, "0" * 12,
        CANDIDATES[0], "m7", 1.0, 99.0, end=End.CAP, checkpoint=5,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ClockedStore:
    """A folder store whose clock a test holds."""
    return ClockedStore(tmp_path / "store")


def test_lease_is_read_back_when_it_was_written(store: ClockedStore) -> None:
    """A state says the same to another controller, but for what only one of them saw."""
    Register(store).append(1, lease()._replace(looks=2, restarts=1))

    assert Register(store).leases()[A] == (1, lease())
    assert Register(store).newest(A) == (1, lease())


def test_append_is_refused_when_another_controller_was_first(store: ClockedStore) -> None:
    """Of two controllers one writes a number, and the other learns of it."""
    assert Register(store).append(1, lease())
    assert not Register(store).append(1, lease(phase=Phase.GONE))

    assert Register(store).leases()[A].lease.phase is Phase.RUNNING


def test_leases_are_the_open_ones_when_some_ended(store: ClockedStore) -> None:
    """An ended lease is not read again; a lease that begins anew is open."""
    register = Register(store)
    register.append(1, lease())
    register.append(2, lease(phase=Phase.SUCCESS))
    register.append(1, lease(B, Phase.ERROR))
    register.append(2, lease(B, Phase.PLANNED))

    assert register.leases().keys() == {B}
    assert register.leases(ended=True)[A].lease.phase is Phase.SUCCESS


def test_leases_are_read_when_one_is_damaged(store: ClockedStore) -> None:
    """A state that cannot be read hides no other machine, and is named."""
    register = Register(store)
    register.append(1, lease(B))
    store.put_once(layout.rental_key(keys.LEASES, A, "000001"), b"{")

    assert register.leases().keys() == {B}
    assert "a" * 64 in register.damaged[A]
    with pytest.raises(DataFault, match="Look for its machine at the platform"):
        register.newest(A)


def test_register_is_read_in_three_listings_when_it_has_a_hundred_leases(
    store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases, signs and money are one listing each, and nothing is fetched twice."""
    register, calls = Register(store), []
    for number in range(100):
        register.append(1, lease(f"{number:064x}"))
        store.put_once(sign_key(f"{number:012x}", keys.CLAIM), b"m1")
    for name in ("entries", "list", "find"):
        act = getattr(ClockedStore, name)
        monkeypatch.setattr(
            ClockedStore, name, lambda s, k, a=act, n=name: (calls.append(n), a(s, k))[1]
        )
    nonces = [f"{number:012x}" for number in range(100)]

    for _ in range(2):
        assert len(register.leases()) == len(register.signs(nonces)) == 100
        assert register.books().promises == ()

    assert sorted(set(calls)) == ["entries", "find", "list"]
    assert calls.count("entries") + calls.count("list") == 2 * 3
    assert calls.count("find") == 200


def test_signs_are_those_of_the_machine_when_it_gave_some(store: ClockedStore) -> None:
    """Ages are by the store's clock; the newest checkpoint counts; another nonce's are not ours."""
    store.put_once(sign_key("n", keys.START, "000000"), b"")
    store.put_once(sign_key("n", keys.CLAIM), b"m1")
    store.put_once(sign_key("n", keys.BEAT, "1", "400"), b"")
    store.put_once(sign_key("n2", keys.BEAT, "2", "900"), b"")
    beat = store.root / sign_key("n", keys.BEAT, "1", "400")
    store.moment = store.moment.fromtimestamp(beat.stat().st_mtime + 61, store.moment.tzinfo)

    signs = Register(store).signs(["n", "other"])

    assert signs["n"].beat_age_s == pytest.approx(61)
    assert signs["n"][1:] == (400, 1, "m1", None)
    assert signs["other"] == (None, 0, 0, "", None)


def test_exit_is_a_failure_when_it_cannot_be_read() -> None:
    """A record that says nothing is no success and no interruption."""
    good = Exit("n", "m1", End.DONE, 0, 7, ("cells/a/b/c/record.json",))

    assert parse_exit(exit_bytes(good), "n") == good
    for bad in (b"", b"[]", b"{}", b'{"reason": "fine"}', exit_bytes(good)[:-9]):
        assert parse_exit(bad, "n").reason is End.FAILED
        assert parse_exit(bad, "n").code != 0


def test_books_are_read_back_when_money_was_written(store: ClockedStore) -> None:
    """A promise counts until its cost is there, whoever reads."""
    register = Register(store)
    promised = Promise("n", A, "paper", 10, 20, 3_600_000)
    register.promise(promised)
    assert Register(store).books().open() == (promised,)

    register.charge(Cost("n", 10, 12, 3_600_000))
    assert Register(store).books().open() == ()
    assert [span.cost for span in Register(store).books().spent()] == [2000]


def test_bill_is_read_back_when_the_platform_said_it(store: ClockedStore) -> None:
    """It replaces our measure; where a machine was is known to whoever asks; the dearer counts."""
    register, cost = Register(store), Cost("n", 10, 12, 3_600_000)
    where = Where("plain", "lab/main", "qg-name", "m1")
    register.charge(cost, where)
    register.charge(Cost("old", 10, 12, 3_600_000))

    assert Register(store).find_where(cost) == where
    assert Register(store).find_where(cost._replace(nonce="old")) is None
    for amount in (1800, 1900, 1700):
        register.settle(Bill("n", amount, 10, 12))
    assert {span.cost for span in Register(store).books().spent()} == {1900, 2000}


def test_owner_is_one_when_two_controllers_begin(store: ClockedStore) -> None:
    """Whoever comes second takes the first one's."""
    assert Register(store).owner() == Register(store).owner()
    assert len(Register(store).owner()) == 8
