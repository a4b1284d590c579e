"""The register of leases in a store: created once, never overwritten, read by three listings.

`docs/formats/rental.md` has the keys.  What was read once is not read again, for it cannot change.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import DataFault, PlatformFault
from quantgrid.rental.lease import End, Exit, Lease, Signs
from quantgrid.rental.spend import Bill, Books, Cost, Promise
from quantgrid.store import Entry, Store

LEASES, SIGNS, MONEY, OWNER = "leases", "signs", "money", "owner"
_OVER, _MAY, _DID, _BILL = "over", "may", "did", "bill"
BEAT, START, CLAIM, EXIT, DONE = "beat", "start", "claim", "exit", "done"


class Numbered(NamedTuple):
    """The newest state of a lease and its number."""

    number: int
    lease: Lease


class Where(NamedTuple):
    """Where a machine was that cost something: who knows its bill.

    Args:
        platform: Name of the platform.
        account: Who paid.
        name: The machine's name.
        machine: The platform's id of it; empty when nobody ever saw it.
    """

    platform: str
    account: str
    name: str
    machine: str


class Register:
    """Leases, signs of life and money in a store."""

    __slots__ = ("_read", "damaged", "ends", "store")

    def __init__(self, store: Store) -> None:
        self.store = store
        self.damaged: dict[str, str] = {}
        """Subjects whose newest state cannot be read, with what a person has to know of it."""
        self.ends: dict[tuple[str, int], set[str]] = {}
        """Job and number of every task that ended, and the nonces of the machines that say so."""
        self._read: dict[str, bytes] = {}

    def owner(self) -> str:
        """Eight hex digits that all names of our machines carry; made at first use."""
        key = layout.rental_key(OWNER)
        if key not in self._read and self.store.find(key) is None:
            self.store.put_once(key, os.urandom(4).hex().encode())
        return self.get(key).decode()

    # -- leases -----------------------------------------------------------------------------------

    def leases(self, *, ended: bool = False) -> dict[str, Numbered]:
        """The newest state of every open lease by its subject; of ended ones too if asked."""
        newest: dict[str, int] = {}
        over: set[tuple[str, int]] = set()
        for key in self.store.list(layout.rental_key(LEASES)):
            subject, number, *rest = layout.rental_words(key)
            newest[subject] = max(newest.get(subject, 0), int(number))
            if rest:
                over.add((subject, int(number)))
        wanted = newest.items() if ended else newest.items() - over
        return dict(self._readable(sorted(wanted)))

    def _readable(self, wanted: list[tuple[str, int]]) -> Iterator[tuple[str, Numbered]]:
        self.damaged.clear()
        for subject, number in wanted:
            try:
                yield subject, Numbered(number, self._lease(subject, number))
            except DataFault as fault:  # the others have machines, too
                self.damaged[subject] = str(fault)

    def newest(self, subject: str, after: int = 0) -> Numbered | None:
        """The newest state of one lease, asked by name: no listing is believed.

        Args:
            subject: Of the lease.
            after: The number of a state that is known; None is the answer when it is the newest.
        """
        number, found = after, None
        while (data := self.store.find(_lease_key(subject, number + 1))) is not None:
            number += 1
            found = Lease.parse(data, f"{self.store.address}/{_lease_key(subject, number)}")
        return Numbered(number, found) if found else None

    def append(self, number: int, lease: Lease) -> bool:
        """Create the state with a number; False when another controller was first."""
        done = self.store.put_once(_lease_key(lease.subject, number), lease.to_bytes())
        if done and lease.phase.is_over:
            self.close(lease.subject, number)
        return done

    def close(self, subject: str, number: int) -> None:
        """Say that a state is the last one, so that nobody reads it to find out."""
        words = (subject, _counted(number), _OVER)
        self.store.put_once(layout.rental_key(LEASES, *words), b"")

    def _lease(self, subject: str, number: int) -> Lease:
        key = _lease_key(subject, number)
        return Lease.parse(self.get(key), f"{self.store.address}/{key}")

    # -- signs of life ----------------------------------------------------------------------------

    def signs(self, nonces: Iterable[str]) -> dict[str, Signs]:
        """What the machines of some nonces say, by one listing; ages by the store's clock."""
        wanted = frozenset(nonces)
        found: dict[str, list[tuple[list[str], Entry]]] = defaultdict(list)
        for entry in self.store.entries(layout.rental_key(SIGNS)):
            nonce, *words = layout.rental_words(entry.key)
            if words[0] == DONE:
                self.ends.setdefault((words[1], int(words[2])), set()).add(nonce)
            elif nonce in wanted:
                found[nonce].append((words, entry))
        now_s = self.store.now().timestamp()
        return {nonce: self._signs(nonce, found[nonce], now_s) for nonce in wanted}

    def _signs(self, nonce: str, found: list[tuple[list[str], Entry]], now_s: float) -> Signs:
        kinds = {words[0] for words, _ in found}
        beats = [(words, entry) for words, entry in found if words[0] == BEAT]
        return Signs(
            beat_age_s=min((now_s - e.modified.timestamp() for _, e in beats), default=None),
            checkpoint=max((int(words[2]) for words, _ in beats), default=0),
            starts=sum(words[0] == START for words, _ in found),
            claimed=self.get(sign_key(nonce, CLAIM)).decode() if CLAIM in kinds else "",
            exit=parse_exit(self.get(sign_key(nonce, EXIT)), nonce) if EXIT in kinds else None,
        )

    # -- money ------------------------------------------------------------------------------------

    def promise(self, promise: Promise) -> None:
        """Write down what a machine may cost; before its create."""
        words = (promise.subject, promise.grid, promise.begin_s, promise.deadline_s)
        self._put_money(promise.nonce, _MAY, *words, promise.microusd_per_h)

    def charge(self, cost: Cost, where: Where | None = None) -> None:
        """Write down what a machine did cost; from now on its promise counts no more."""
        data = json.dumps(where._asdict(), sort_keys=True).encode() if where else b""
        self._put_money(cost.nonce, _DID, *cost[1:], data=data)

    def find_where(self, cost: Cost) -> Where | None:
        """Where a charged machine was; None when that was not written down."""
        with suppress(ValueError, TypeError):
            return Where(**json.loads(self.get(_money_key(cost.nonce, _DID, *cost[1:]))))
        return None

    def settle(self, bill: Bill) -> None:
        """Write down what a machine did cost by its platform's word; of two the dearer counts."""
        self._put_money(bill.nonce, _BILL, *bill[1:])

    def books(self) -> Books:
        """All promises, costs and bills, by one listing and nothing else."""
        promises, costs = [], []
        bills: dict[str, Bill] = {}
        for key in self.store.list(layout.rental_key(MONEY)):
            nonce, kind, *words = layout.rental_words(key)
            if kind == _MAY:
                subject, grid, *numbers = words
                promises.append(Promise(nonce, subject, grid, *map(int, numbers)))
            elif kind == _DID:
                costs.append(Cost(nonce, *map(int, words)))
            else:
                bill = Bill(nonce, *map(int, words))
                bills[nonce] = max(bill, bills.get(nonce, bill))
        return Books(tuple(promises), tuple(costs), tuple(bills.values()))

    def _put_money(self, nonce: str, kind: str, *words: object, data: bytes = b"") -> None:
        self.store.put_once(_money_key(nonce, kind, *words), data)

    def get(self, key: str) -> bytes:
        """The bytes of a key that is there, asked for once.

        Raises:
            PlatformFault: when it is not there after all.
        """
        if key not in self._read:
            self._read[key] = self._found(key)
        return self._read[key]

    def _found(self, key: str) -> bytes:
        data = self.store.find(key)
        if data is None:
            raise PlatformFault(
                "the store lists a key that it does not have",
                seen=key,
                where=self.store.address,
                do="Look again; if it stays so, the store is damaged.",
            )
        return data


def sign_key(nonce: str, kind: str, *words: str) -> str:
    """The key of a sign of a machine."""
    return layout.rental_key(SIGNS, nonce, kind, *words)


def parse_exit(data: bytes, nonce: str) -> Exit:
    """The exit record of a machine; one that cannot be read is a failure of what wrote it."""
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        fields = json.loads(data)
        return Exit(
            nonce=str(fields["nonce"]),
            machine=str(fields["machine"]),
            reason=End(fields["reason"]),
            code=int(fields["code"]),
            checkpoint=int(fields["checkpoint"]),
            records=tuple(str(each) for each in fields["records"]),
        )
    return Exit(nonce, "", End.FAILED, -1, 0)


def exit_bytes(record: Exit) -> bytes:
    """What a machine stores last of all."""
    return json.dumps(record._asdict(), sort_keys=True).encode()


def _money_key(nonce: str, kind: str, *words: object) -> str:
    return layout.rental_key(MONEY, nonce, kind, *map(str, words))


def _lease_key(subject: str, number: int) -> str:
    return layout.rental_key(LEASES, subject, _counted(number))


def _counted(number: int) -> str:
    return f"{number:06d}"
