"""One round after the other: look, step every lease, write down, and only then do.

A round makes one listing of machines and three of the register.  It raises nothing: what could not
be looked at is not known in this round, and nothing is concluded from it.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from quantgrid.errors import QuantgridError
from quantgrid.rental import spend
from quantgrid.rental.errors import CallFault, Trouble
from quantgrid.rental.lease import (
    Action,
    Charge,
    Find,
    Fund,
    Funds,
    Launch,
    Lease,
    Phase,
    Reply,
    Seen,
    Stop,
    Tell,
    Terms,
    Verify,
)
from quantgrid.rental.port import Machine, Name, Order, Platform, find_name
from quantgrid.rental.register import Numbered, Register, Where
from quantgrid.rental.settling import Settling
from quantgrid.rental.steps import step

_TOLD = {Trouble.ACCOUNT, Trouble.FATAL}
"""What a person has to mend: the platform's own words are passed on."""
_TAIL_S = 300.0
"""What a machine may cost after its deadline, until it is ended from inside."""
_UNANSWERED = 5
"""Listings in a row without an answer, after which a person is told, once."""


class Wanted(NamedTuple):
    """What somebody wants a machine for.

    Args:
        subject: 64 hex digits: what it is.
        cell: The same for a person.
        grid: Whose money it is.
        account: The pin of who pays.
        volume: Id of the volume that must be there; empty for none.
        terms: How patient to be.
        order: From a lease and its machine's name to what is launched.
        max_microusd: What all its machines may cost; None where only the caps bound it.
        others: Ids of volumes that were declared beside it, in other regions; one is enough.
    """

    subject: str
    cell: str
    grid: str
    account: str
    volume: str
    terms: Terms
    order: Callable[[Lease, Name], Order]
    max_microusd: int | None = None
    others: tuple[str, ...] = ()


class Ways(NamedTuple):
    """How a controller reaches the world.

    Args:
        now: The time by the store's clock, or close to it; for the fence before a create.
        start: Runs a call somewhere else, since a create may take minutes.
        fresh: A nonce that was never given: twelve random hex digits.
        verify: Whether the records with these keys are in the archive and whole; None if unknown.
        tell: Says something to a person.
        is_dead: Whether a controller is dead for sure.
    """

    now: Callable[[], datetime]
    start: Callable[[Callable[[], None]], None]
    fresh: Callable[[], str]
    verify: Callable[[tuple[str, ...]], bool | None]
    tell: Callable[[str], None]
    is_dead: Callable[[str], bool]


class Rounds:
    """A controller of leases on one platform.

    Args:
        platform: Where machines are rented.
        register: Where they are written down.
        caps: What all may cost.
        by: Name of this controller, unique for ever.
        ways: How it reaches the world.
    """

    def __init__(
        self, platform: Platform, register: Register, caps: spend.Caps, by: str, ways: Ways
    ) -> None:
        self.platform, self.register, self.caps, self.by, self.ways = (
            platform,
            register,
            caps,
            by,
            ways,
        )
        self.last: dict[str, Lease] = {}
        """The newest state of every lease that was ever stepped here."""
        self.open: dict[str, Lease] = {}
        """The leases of this platform and account that were not over when the round began."""
        self._wanted: dict[str, Wanted] = {}
        self._met: set[str] = set()
        self._cancelled: set[str] = set()
        self._volatile: dict[str, Lease] = {}
        self._calling: set[str] = set()
        self._replies: dict[str, Reply] = {}
        self._funds: dict[str, Funds] = {}
        self._verified: dict[str, bool | None] = {}
        self._found: dict[str, tuple[Machine, ...]] = {}
        self._account, self._unanswered = "", 0
        self._volumes: set[str] = set()
        self._books = spend.Books((), ())
        self._settling = Settling(platform, register)

    @property
    def books(self) -> spend.Books:
        """What machines did cost and may cost, as it was last read."""
        return self._books

    def want(self, wanted: Wanted) -> None:
        """From the next round on, rent for this; an open lease of the subject is adopted.

        A lease that ended well is not opened again: its records are in the archive.
        """
        self._wanted[wanted.subject] = wanted
        self._met.discard(wanted.subject)
        self._cancelled.discard(wanted.subject)
        self.last.pop(wanted.subject, None)

    def cancel(self, subject: str) -> None:
        """From the next round on, end what is rented for this, and confirm it."""
        self._cancelled.add(subject)

    def go(self) -> bool:
        """One round; whether the register could be read."""
        with suppress(QuantgridError):
            self._go()
            return True
        return False

    def _go(self) -> None:
        # machines before leases: a machine that is listed has its state in the register by now
        owner = self.register.owner()
        self._account = self._account or self.platform.whoami().id
        machines = self._machines(owner)
        leases = {k: v for k, v in self.register.leases().items() if self._is_ours(v.lease)}
        self.open = {subject: numbered.lease for subject, numbered in leases.items()}
        self._met |= leases.keys() & self._wanted.keys()
        self._catch_up(leases.keys())
        for subject in self._wanted.keys() - leases.keys() - self._over():
            with suppress(QuantgridError):
                self._open(self._wanted[subject])
        signs = self.register.signs(each.lease.nonce for each in leases.values())
        self._books = self.register.books()
        charged = {cost.nonce for cost in self._books.costs}
        now_s = self.register.store.now().timestamp()
        for subject, numbered in leases.items():
            lease = numbered.lease
            seen = self._seen(lease, owner, machines, now_s)._replace(
                signs=signs.get(lease.nonce), is_charged=lease.nonce in charged
            )
            with suppress(QuantgridError):
                self._step(subject, numbered, seen, now_s)
        self._settling.go(self._books, self._account, now_s)

    def _catch_up(self, leases: AbstractSet[str]) -> None:
        """What was stepped here, unwanted, and brought to its end by another controller."""
        gone = self.last.keys() - leases - self._wanted.keys() - self._over()
        for subject in gone:
            if newest := self.register.newest(subject):
                self.last[subject] = newest.lease

    def _over(self) -> set[str]:
        return {subject for subject, lease in self.last.items() if lease.phase.is_over}

    def _is_ours(self, lease: Lease) -> bool:
        """Whether its machine would be listed here; another account shows none of its machines."""
        return (lease.platform, lease.account) == (self.platform.name, self._account)

    def _open(self, wanted: Wanted) -> None:
        """Plan the first machine of a subject; counters of an earlier lease begin anew."""
        volumes = (wanted.volume, *wanted.others)
        if self._account != wanted.account or not any(map(self._has_volume, volumes)):
            self.ways.tell(_other_place(self.platform.name, wanted, self._account))
            return
        newest = self.register.newest(wanted.subject)
        if newest and not newest.lease.phase.is_over:
            return
        is_met = wanted.subject in self._met  # then another controller brought it to its end
        if newest and (is_met or newest.lease.phase is Phase.SUCCESS):
            self.last[wanted.subject] = newest.lease
            return
        lease = Lease(
            wanted.subject, wanted.cell, wanted.grid, self.platform.name, wanted.account, by=self.by
        )
        if newest:  # attempts are counted on: a name is never given twice
            lease = lease._replace(attempt=newest.lease.attempt)
        self.register.append(newest.number + 1 if newest else 1, lease)

    # -- looking ----------------------------------------------------------------------------------

    def _machines(self, owner: str) -> tuple[Machine, ...] | None:
        try:
            machines = self.platform.machines(owner)
        except CallFault as fault:
            self._unanswered += 1
            if self._unanswered == _UNANSWERED:
                name = self.platform.name
                self.ways.tell(f"{name}: {fault}  Machines that run go on; asking again.")
            return None
        self._unanswered = 0
        return machines

    def _seen(
        self, lease: Lease, owner: str, machines: tuple[Machine, ...] | None, now_s: float
    ) -> Seen:
        is_orphaned = self._is_orphaned(lease)  # before its reply: a call may end meanwhile
        found = self._found.pop(lease.nonce, None)
        looked = None
        if machines is not None or found is not None:
            listed = (m for m in machines or () if _is_of(m, lease, owner))
            looked = tuple({each.id: each for each in (*(found or ()), *listed)}.values())
        return Seen(
            fresh=self.ways.fresh(),
            funds=self._quote(lease, now_s),
            reply=self._replies.pop(lease.nonce, None),
            machines=looked,
            verified=self._verified.pop(lease.nonce, None),
            is_cancelled=lease.subject in self._cancelled or self._is_left(lease, now_s),
            is_orphaned=is_orphaned,
        )

    def _quote(self, lease: Lease, now_s: float) -> Funds | None:
        """The answer to `Fund`; for a planned machine what it would be, without any promise."""
        wanted = self._wanted.get(lease.subject)
        if lease.phase is not Phase.PLANNED or wanted is None:
            return self._funds.pop(lease.nonce, None)
        candidate, deadline_s = wanted.terms.candidate(lease.turn), now_s + wanted.terms.life_s
        lease = lease._replace(nonce="", begin_s=now_s, deadline_s=deadline_s, candidate=candidate)
        return self._allowed(self._promise(lease), lease, now_s)

    def _is_left(self, lease: Lease, now_s: float) -> bool:
        """Whether nobody here wants it and its machine should have ended long ago."""
        is_late = lease.phase is not Phase.PLANNED and now_s > lease.deadline_s + _TAIL_S
        return is_late and lease.subject not in self._wanted

    def _is_orphaned(self, lease: Lease) -> bool:
        if lease.by != self.by:
            return self.ways.is_dead(lease.by)
        return lease.nonce not in self._calling

    # -- stepping ---------------------------------------------------------------------------------

    def _step(self, subject: str, numbered: Numbered, seen: Seen, now_s: float) -> None:
        wanted = self._wanted.get(subject)
        if wanted is None and not seen.is_cancelled and not numbered.lease.is_cancelled:
            return
        lease = self._with_volatile(numbered)
        terms = wanted.terms if wanted else Terms((lease.candidate,), self.platform.limits, 0.0)
        after, actions = step(lease, seen, now_s, terms)
        if after.durable() != numbered.lease.durable():
            after = after._replace(by=self.by)
            if not self.register.append(numbered.number + 1, after):
                return  # another controller was first: its state is read in the next round
        self._volatile[subject] = self.last[subject] = after
        for action in actions:
            with suppress(QuantgridError):
                self._do(action, after, wanted)

    def _with_volatile(self, numbered: Numbered) -> Lease:
        """The state of the register with what only this controller saw, if it is still the same."""
        kept = self._volatile.get(numbered.lease.subject)
        is_same = kept and kept.durable() == numbered.lease.durable()
        return kept if kept and is_same else numbered.lease

    # -- doing ------------------------------------------------------------------------------------

    def _do(self, action: Action, lease: Lease, wanted: Wanted | None) -> None:
        match action:
            case Fund():
                self._fund(lease)
            case Launch(before_s) if wanted:
                self._calling.add(lease.nonce)
                self.ways.start(lambda: self._launch(lease, wanted, before_s))
            case Find():
                machine = self.platform.find(str(lease.name(self.register.owner())))
                self._found[lease.nonce] = (machine,) if machine else ()
            case Stop(machine):
                self.platform.stop(machine)
            case Verify(records):
                self._verified[lease.nonce] = self.ways.verify(records)
            case Charge(begin_s, end_s):
                span = spend.whole(begin_s, end_s) if end_s > begin_s else (int(begin_s),) * 2
                name = str(lease.name(self.register.owner()))
                where = Where(lease.platform, lease.account, name, lease.machine)
                self.register.charge(spend.Cost(lease.nonce, *span, _per_h(lease)), where)
            case Tell(text):
                self.ways.tell(text)

    def _fund(self, lease: Lease) -> None:
        """Promise first, then look at all promises: of two controllers one sees the other's."""
        promise = self._promise(lease)
        self.register.promise(promise)
        self._books = self.register.books()
        now_s = self.register.store.now().timestamp()
        self._funds[lease.nonce] = self._allowed(promise, lease, now_s)

    def _promise(self, lease: Lease) -> spend.Promise:
        last_s = lease.deadline_s + self.platform.limits.grace_s + _TAIL_S
        span = spend.whole(lease.begin_s, last_s)
        return spend.Promise(lease.nonce, lease.subject, lease.grid, *span, _per_h(lease))

    def _allowed(self, promise: spend.Promise, lease: Lease, now_s: float) -> Funds:
        wanted = self._wanted.get(lease.subject)
        bounds = (self.caps.subject, wanted.max_microusd if wanted else None)
        own = min((each for each in bounds if each is not None), default=None)
        caps = self.caps._replace(subject=own)
        allowance = spend.allow(self._books, promise, caps, now_s)
        if allowance.funds is Funds.REFUSED:
            self.ways.tell(f"no machine for {lease.cell}: {allowance.why}.")
        return allowance.funds

    def _launch(self, lease: Lease, wanted: Wanted, before_s: float) -> None:
        """Make the create call; the reply is seen in a later round."""
        reply = Reply(lease.nonce, trouble=Trouble.AMBIGUOUS)
        try:
            reply = self._launched(lease, wanted, before_s)
        except CallFault as fault:
            trouble = fault.trouble
            if trouble in _TOLD:
                self.ways.tell(f"no machine for {lease.cell}: {fault}")
            reply = Reply(lease.nonce, trouble=trouble, retry_after_s=fault.retry_after_s)
        finally:
            self._replies[lease.nonce] = reply
            self._calling.discard(lease.nonce)

    def _launched(self, lease: Lease, wanted: Wanted, before_s: float) -> Reply:
        order = wanted.order(lease, lease.name(self.register.owner()))
        if self.ways.now().timestamp() > before_s:  # this process was frozen: others gave it up
            return Reply(lease.nonce, trouble=Trouble.RETRY)
        return Reply(lease.nonce, machine=self.platform.launch(order).id)

    def _has_volume(self, volume: str) -> bool:
        if volume and volume not in self._volumes:
            facts = self.platform.volume(volume)
            if facts and facts.size_bytes > 0:  # what is written to one without a size is lost
                self._volumes.add(volume)
        return not volume or volume in self._volumes


def _other_place(platform: str, wanted: Wanted, account: str) -> str:
    return (
        f"refused: this is another account of {platform}, or its volume is not there or has no "
        f"size; expected account "
        f"{wanted.account} with volume {wanted.volume or 'none'}; seen account {account}.  "
        f"Nothing was created and nothing is lost: you look at another place."
    )


def _is_of(machine: Machine, lease: Lease, owner: str) -> bool:
    name = find_name(machine.name)
    return name is not None and (name.owner, name.subject) == (owner, lease.subject[:12])


def _per_h(lease: Lease) -> int:
    return lease.candidate.price.microusd_per_h
