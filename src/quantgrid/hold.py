"""Who computes a fingerprint now: claims in a store, numbered, each created once.

A claim is followed by beats of its holder.  A claim whose holder was silent for its time-to-live
is superseded by the next number, and whoever is superseded may not publish.  Nothing is decided by
a listing: every question is put to a key whose name is known.  `docs/formats/holds.md` has the
protocol and why it is safe.
"""

import json
import os
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from quantgrid import layout
from quantgrid.clock import timestamp
from quantgrid.errors import DataFault, HoldRefusal, PlatformFault
from quantgrid.store import Store

SLOTS = 6
"""Beats in a time-to-live: five may be late or lost before anybody takes over."""
_VERSION = 1
_KEPT = 2 * SLOTS
"""Beats that stay in the store, so that a slow reader still finds those that it asks for."""


MACHINE = "QG_MACHINE"
"""What a rented machine tells its tasks: its platform, its lease and its nonce."""


class Holder(NamedTuple):
    """A process that computes.

    Args:
        id: Unique for ever.
        host: Name of its machine.
        process: Its number there.
        place: Its working copy, for a person.
        copy: Random id of its working copy.
        attempt: Name of the lock that it keeps in that working copy.
        machine: Platform, lease and nonce of the rented machine that it runs in; empty elsewhere.
    """

    id: str
    host: str
    process: int
    place: str
    copy: str
    attempt: str
    machine: str = ""

    @property
    def platform(self) -> str:
        """Where its machine is rented; empty when it is not."""
        return self.machine.partition(" ")[0]

    def is_replaced_by(self, other: "Holder") -> bool:
        """Whether another one runs in a later machine of its lease, which has one at a time."""
        lease, _, nonce = self.machine.rpartition(" ")
        other_lease, _, other_nonce = other.machine.rpartition(" ")
        return bool(lease) and lease == other_lease and nonce != other_nonce


IsDead = Callable[[Holder], bool]
"""Better evidence than silence that a holder is dead, such as a lock that the kernel freed."""


def nobody_knows(_: Holder) -> bool:
    """There is no better evidence than silence."""
    return False


class Claim(NamedTuple):
    """The statement that a holder computes a fingerprint.

    Args:
        fingerprint: What is computed.
        cell: For a person: the cell or milestone that it is computed for.
        token: Number of this claim, from 1; a later claim has a larger one.
        holder: Who made it.
        slot: Number of the beat that the claim itself is.
        ttl_s: Silence after which it may be superseded.
    """

    fingerprint: str
    cell: str
    token: int
    holder: Holder
    slot: int
    ttl_s: float

    @property
    def slot_s(self) -> float:
        """Seconds between two beats."""
        return self.ttl_s / SLOTS

    def slot_at(self, moment: datetime) -> int:
        """The number of the beat that is due at a moment of the store's clock."""
        return int(moment.timestamp() // self.slot_s)

    def begin_of(self, slot: int) -> str:
        """When a beat became due, as a timestamp."""
        return timestamp(datetime.fromtimestamp(slot * self.slot_s, UTC))

    def to_bytes(self) -> bytes:
        """What is stored."""
        fields = self._asdict() | {"holder": self.holder._asdict(), "version": _VERSION}
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def parse(cls, data: bytes, where: str) -> "Claim":
        """Read a claim.

        Raises:
            DataFault: when it is none.
        """
        try:
            fields = json.loads(data)
            if fields.pop("version") != _VERSION:
                raise ValueError
            return cls(**{**fields, "holder": Holder(**fields["holder"])})
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataFault(
                "a claim of a hold cannot be read",
                expected=f"JSON of version {_VERSION}",
                seen=repr(data[:60]),
                where=where,
                do="If nobody computes this cell, remove that key.",
            ) from error


class Seen(NamedTuple):
    """A live hold as somebody else saw it: the claim and its newest beat."""

    claim: Claim
    slot: int

    def words(self) -> str:
        """Who holds it, where and since when."""
        holder, claim = self.claim.holder, self.claim
        return (
            f"process {holder.process} on {holder.host} in {holder.place}, "
            f"since {claim.begin_of(claim.slot)}, last beat {claim.begin_of(self.slot)}"
        )

    def refusal(self) -> HoldRefusal:
        """The sentence with which a second starter leaves."""
        return HoldRefusal(
            f"{self.claim.cell} is computed elsewhere",
            seen=self.words(),
            do="Nothing failed, and other cells go on; run again to fold its result.",
        )


class Terms(NamedTuple):
    """What a starter brings along.

    Args:
        cell: For a person: what it computes.
        holder: Who it is.
        ttl_s: Silence after which others may take over from it.
        is_dead: Better evidence than silence.
    """

    cell: str
    holder: Holder
    ttl_s: float
    is_dead: IsDead = nobody_knows


class Chain(NamedTuple):
    """All claims of a fingerprint, in a store."""

    store: Store
    fingerprint: str

    def take(self, terms: Terms) -> "Hold | Seen":
        """Claim the fingerprint, or see who holds it.

        Raises:
            DataFault: when a claim cannot be read.
            PlatformFault: when the store does not answer; a claim that was made all the same ends
                by silence.
        """
        while True:
            newest = self.newest()
            seen = self.find_live(newest, terms.is_dead) if newest else None
            if seen:
                return seen
            claim = self._claim((newest.token if newest else 0) + 1, terms)
            # leavings of a chain that was cleared may lie above: then climb over them
            if self._put(claim) and self._find(claim.token + 1) is None:
                return Hold(self.store, claim)

    def newest(self) -> Claim | None:
        """The claim with the largest token, or None."""
        newest, token = None, 1
        while (claim := self._find(token)) is not None:
            newest, token = claim, token + 1
        return newest

    def find_live(self, claim: Claim, is_dead: IsDead = nobody_knows) -> Seen | None:
        """The newest claim with its last beat; None when it ended or its holder is dead."""
        over = layout.hold_key(self.fingerprint, claim.token, layout.HOLD_OVER)
        if is_dead(claim.holder) or self.store.find(over) is not None:
            return None
        while True:
            begin = self.store.now()
            due = claim.slot_at(begin)
            slot = self._last_beat(claim, due)
            took_s = (self.store.now() - begin).total_seconds()
            # a reader that was frozen meanwhile may have missed beats that are gone by now
            if slot is not None or took_s < claim.ttl_s:
                return None if slot is None else Seen(claim, slot)

    def _last_beat(self, claim: Claim, due: int) -> int | None:
        for slot in range(due + 1, due - SLOTS - 1, -1):
            if slot <= claim.slot:
                return claim.slot
            key = layout.hold_key(self.fingerprint, claim.token, layout.HOLD_BEAT.format(slot))
            if self.store.find(key) is not None:
                return slot
        return None

    def _find(self, token: int) -> Claim | None:
        key = layout.hold_key(self.fingerprint, token, layout.HOLD_CLAIM)
        data = self.store.find(key)
        return None if data is None else Claim.parse(data, f"{self.store.address}/{key}")

    def _claim(self, token: int, terms: Terms) -> Claim:
        claim = Claim(self.fingerprint, terms.cell, token, terms.holder, 0, terms.ttl_s)
        return claim._replace(slot=claim.slot_at(self.store.now()))

    def _put(self, claim: Claim) -> bool:
        """Create a claim; whether it is ours, also when the reply was lost."""
        key, data = _key(claim, layout.HOLD_CLAIM), claim.to_bytes()
        try:
            if self.store.put_once(key, data):
                return True
        except PlatformFault:
            if self.store.find(key) is None:
                raise
        return self.store.find(key) == data


class Hold:
    """A claim of this process."""

    __slots__ = ("_beats", "claim", "store")

    def __init__(self, store: Store, claim: Claim) -> None:
        self.store, self.claim = store, claim
        self._beats: list[int] = []

    def facts(self) -> Mapping[str, object]:
        """What a record says of the hold under which it was made."""
        return {"token": self.claim.token, "holder": self.claim.holder.id}

    def beat(self) -> None:
        """Say that the holder lives, and look whether the hold is still its own.

        Raises:
            HoldRefusal: when it is not.
            PlatformFault: when the store does not answer; the next beat may get through.
        """
        slot = self.claim.slot_at(self.store.now())
        self.store.put_once(_key(self.claim, layout.HOLD_BEAT.format(slot)), b"")
        self._beats.append(slot)
        while self._beats[0] < slot - _KEPT:
            self.store.delete(_key(self.claim, layout.HOLD_BEAT.format(self._beats[0])))
            self._beats.pop(0)
        self.refuse_lost()

    def refuse_lost(self) -> None:
        """Make sure that nobody took over: what must be asked right before a publication.

        Raises:
            HoldRefusal: when somebody did, naming who.
        """
        claim = self.claim
        # in this order: whoever clears a chain removes the smaller token first
        key = layout.hold_key(claim.fingerprint, claim.token + 1, layout.HOLD_CLAIM)
        later = self.store.find(key)
        if later is not None:
            holder = Claim.parse(later, f"{self.store.address}/{key}").holder
            raise self._lost(f"process {holder.process} on {holder.host} in {holder.place}")
        if self.store.find(_key(claim, layout.HOLD_CLAIM)) != claim.to_bytes():
            raise self._lost("somebody else, whose result is in the archive")

    def _lost(self, taker: str) -> HoldRefusal:
        claim = self.claim
        return HoldRefusal(
            f"this process lost the hold of {claim.cell} and publishes nothing",
            expected=f"a beat every {claim.ttl_s:g} s at least (token {claim.token})",
            seen=f"silence, and a take-over by {taker}",
            where=self.store.address,
            do="It was frozen, asleep or cut off; run again to fold the result of the other one.",
        )

    def release(self, *, is_done: bool) -> None:
        """Let go; when the record is there, the whole chain is cleared.

        Before that no claim is ever removed, so that no token is given twice.
        A store that does not answer is left alone: silence ends the hold as well.
        """
        with suppress(PlatformFault):
            if is_done:
                self._clear()
            else:
                self.store.put_once(_key(self.claim, layout.HOLD_OVER), b"")

    def _clear(self) -> None:
        own = self.claim
        for slot in self._beats:
            self.store.delete(_key(own, layout.HOLD_BEAT.format(slot)))
        if own.token > 1:
            _delete_claims(self.store, own.fingerprint, own.token - 1)
            clear(self.store, {own.fingerprint})
        self.store.delete(_key(own, layout.HOLD_CLAIM))


def clear(store: Store, done: Iterable[str]) -> None:
    """Remove what is left of the holds of fingerprints whose records are in the archive."""
    wanted, newest = frozenset(done), dict[str, int]()
    keys = [key for key in store.list(layout.HOLDS) if layout.hold_parts(key)[0] in wanted]
    for fingerprint, token, _ in map(layout.hold_parts, keys):
        newest[fingerprint] = max(token, newest.get(fingerprint, 0))
    for fingerprint, last in newest.items():
        _delete_claims(store, fingerprint, last)
    for key in sorted(keys):
        store.delete(key)


def _delete_claims(store: Store, fingerprint: str, last: int) -> None:
    """Remove the claims up to a token: smaller ones first, by name, for a listing may be old.

    A claim that stayed while the next one went would let its holder through the fence.
    """
    for token in range(1, last + 1):
        store.delete(layout.hold_key(fingerprint, token, layout.HOLD_CLAIM))


def live(store: Store, wanted: Container[str]) -> dict[str, Seen]:
    """The live holds of fingerprints, found by one listing: good for a plan, not for a claim."""
    chains = {layout.hold_parts(key)[0] for key in store.list(layout.HOLDS)}
    found = {}
    for fingerprint in sorted(name for name in chains if name in wanted):
        chain = Chain(store, fingerprint)
        newest = chain.newest()
        seen = chain.find_live(newest) if newest else None
        if seen:
            found[fingerprint] = seen
    return found


def _key(claim: Claim, part: str) -> str:
    return layout.hold_key(claim.fingerprint, claim.token, part)


def new_holder(place: str, copy: str, attempt: str) -> Holder:
    """This process as a holder."""
    host, process = os.uname().nodename, os.getpid()
    unique = f"{host}-{process}-{os.urandom(6).hex()}"
    return Holder(unique, host, process, place, copy, attempt, os.environ.get(MACHINE, ""))
