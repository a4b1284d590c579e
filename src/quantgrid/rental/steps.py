"""What follows for a lease from what was seen: pure, without a clock, without any call.

`step` is asked again and again.  The new state is written down before any action is done, and an
action whose answer never comes is found out about by looking, never by doing it again.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from quantgrid.rental import chain
from quantgrid.rental.errors import Trouble
from quantgrid.rental.lease import (
    Action,
    Charge,
    End,
    Exit,
    Find,
    Fund,
    Funds,
    Launch,
    Lease,
    Phase,
    Reply,
    Seen,
    Step,
    Stop,
    Tell,
    Terms,
    Verify,
)
from quantgrid.rental.port import Machine, MachineState, find_name

_ABSENT = 2
"""Looks in a row that must miss a machine before it counts as gone."""
_SILENT = 3
"""Beats that must be missing before the word of a platform that a machine ended is believed."""


def step(lease: Lease, seen: Seen, now_s: float, terms: Terms) -> Step:
    """The next state of a lease, and what is to be done once it is written down."""
    if seen.is_cancelled:
        lease = lease._replace(is_cancelled=True)
    after, actions = _STEPS[lease.phase](_At(lease, seen, now_s, terms))
    return after, (*actions, *_strays(after, seen))


class _At(NamedTuple):
    """A lease, what was seen, when, and on which terms."""

    lease: Lease
    seen: Seen
    now_s: float
    terms: Terms

    @property
    def age_s(self) -> float:
        """How long the lease is in its phase."""
        return self.now_s - self.lease.since_s

    @property
    def machine(self) -> Machine | None:
        """The machine of the newest nonce, if the last look showed it."""
        lease, machines = self.lease, self.seen.machines or ()
        mine = [each for each in machines if _nonce(each) == lease.nonce]
        return min(mine, key=lambda each: (each.id != lease.machine, each.id), default=None)

    @property
    def is_missing(self) -> bool:
        """Whether the last look did not show it; no look is no answer."""
        return self.seen.machines is not None and self.machine is None

    @property
    def exit(self) -> Exit | None:
        """The exit record of the newest nonce."""
        record = self.seen.signs.exit if self.seen.signs else None
        return record if record and record.nonce == self.lease.nonce else None

    @property
    def reply(self) -> Reply | None:
        """How the create call of the newest nonce ended."""
        reply = self.seen.reply
        return reply if reply and reply.nonce == self.lease.nonce else None

    @property
    def claimed(self) -> str:
        """Id of the machine that works for the newest nonce, by its own word."""
        return self.seen.signs.claimed if self.seen.signs else ""

    def stay(self, *actions: Action, **changes: Any) -> Step:
        """The same phase."""
        return self.lease._replace(**changes), actions

    def to(self, phase: Phase, *actions: Action, **changes: Any) -> Step:
        """Another phase."""
        fresh = {"since_s": self.now_s, "looks": 0, "next_s": 0.0}
        return self.lease._replace(phase=phase, **fresh | changes), actions

    def gone(self, end: End) -> Step:
        """No machine was made."""
        return self.to(Phase.GONE, end=end, machine="", gone_s=self.lease.begin_s)

    def ending(self, end: End, machine: str = "") -> Step:
        """The machine has to end, and its end to be confirmed."""
        machine = machine or self.lease.machine
        made_s = self.lease.made_s or self.now_s
        changes = {"end": end, "machine": machine, "made_s": made_s, "asked_s": self.now_s}
        return self.to(Phase.TERMINATING, Stop(machine), **changes)


# -- before there is a machine ---------------------------------------------------------------------


def _planned(at: _At) -> Step:
    lease, terms = at.lease, at.terms
    if lease.is_cancelled:
        return at.to(Phase.ERROR, end=End.CANCELLED)
    if at.now_s < lease.next_s or at.seen.funds not in {Funds.CLEAR, Funds.REFUSED}:
        return at.stay()
    if at.seen.funds is Funds.REFUSED:
        return at.to(Phase.ERROR, end=End.BUDGET)
    return at.to(
        Phase.INTENT,
        Fund(),
        attempt=lease.attempt + 1,
        nonce=at.seen.fresh,
        candidate=terms.candidate(lease.turn),
        machine="",
        begin_s=at.now_s,
        deadline_s=at.now_s + terms.life_s,
        made_s=0.0,
        gone_s=0.0,
        end=None,
        uptime_s=0.0,
        restarts=0,
    )


def _intent(at: _At) -> Step:
    if at.lease.is_cancelled:
        return at.gone(End.CANCELLED)
    if at.age_s > at.terms.limits.boot_s:  # its deadline stands: it would compute too short
        return at.gone(End.LATE)
    match at.seen.funds:
        case Funds.CLEAR:
            return at.to(Phase.CREATING, Launch(at.now_s + at.terms.look_s))
        case Funds.WAIT:
            return at.gone(End.BURN_RATE)
        case Funds.REFUSED:
            return at.gone(End.BUDGET)
        case _:
            return at.stay(Fund())


def _creating(at: _At) -> Step:
    if found := _found(at):
        return _adopt(at, found)
    if at.reply and at.reply.trouble:
        return _not_created(at, at.reply, at.reply.trouble)
    if at.lease.next_s:  # refused before anything was done, to be called again
        return _call_again(at)
    if at.seen.is_orphaned or at.age_s > at.terms.limits.create_s + at.terms.look_s:
        return at.to(Phase.RECONCILE, Find())
    return at.stay()


def _not_created(at: _At, reply: Reply, trouble: Trouble) -> Step:
    if trouble is Trouble.RETRY:
        return at.stay(next_s=at.now_s + max(reply.retry_after_s, 1.0))
    if end := _NOT_DONE.get(trouble):
        return at.gone(End.CANCELLED if at.lease.is_cancelled else end)
    return at.to(Phase.RECONCILE, Find())


_NOT_DONE = {
    Trouble.CAPACITY: End.NO_CAPACITY,
    Trouble.ACCOUNT: End.ACCOUNT,
    Trouble.FATAL: End.FATAL,
}


def _call_again(at: _At) -> Step:
    if at.lease.is_cancelled:
        return at.gone(End.CANCELLED)
    if at.now_s - at.lease.begin_s > at.terms.limits.create_s + at.terms.look_s:
        return at.gone(End.LATE)
    if at.now_s < at.lease.next_s:
        return at.stay()
    return at.to(Phase.CREATING, Launch(at.now_s + at.terms.look_s))


def _reconcile(at: _At) -> Step:
    if found := _found(at):
        return _adopt(at, found)
    if at.seen.machines is None:
        return at.stay(Find())
    looks = at.lease.looks + 1
    limits = at.terms.limits  # a call that was given up may still be done, and then hide
    patience_s = max(at.terms.look_s, limits.create_s + limits.visible_s)
    if looks >= at.terms.looks and at.age_s >= patience_s:
        end = End.CANCELLED if at.lease.is_cancelled else End.NEVER_MADE
        return at.to(Phase.GONE, end=end, machine="", gone_s=at.now_s)  # perhaps it was, unseen
    return at.stay(Find(), looks=looks)


def _found(at: _At) -> str:
    """The id of the machine by its own word, by the reply, or by the look; empty without any."""
    replied = at.reply.machine if at.reply else ""
    return at.claimed or replied or (at.machine.id if at.machine else "")


def _adopt(at: _At, machine: str) -> Step:
    if at.lease.is_cancelled:
        return at.ending(End.CANCELLED, machine)
    return at.to(Phase.BOOTING, machine=machine, made_s=at.now_s, fatals=0, short_s=0.0)


# -- there is a machine ----------------------------------------------------------------------------


def _booting(at: _At) -> Step:
    if end := _own_end(at):
        return at.ending(end)
    if at.reply and at.reply.trouble is Trouble.CAPACITY:  # listed while it only waited for a GPU
        return at.ending(End.NO_CAPACITY)
    at = _watched(at)
    if at.seen.signs and at.seen.signs.beat_age_s is not None:
        return at.to(Phase.RUNNING, slow_boots=0)
    if at.lease.restarts >= at.terms.max_starts:
        return at.ending(End.CRASHLOOP)
    if at.machine and at.machine.state is MachineState.ENDED:
        return at.ending(End.INTERRUPTED)
    if at.age_s > at.terms.limits.boot_s:
        return at.ending(End.SLOW_BOOT)
    if at.is_missing and at.age_s > at.terms.limits.visible_s:
        return _missed(at)
    return at.stay(looks=0)


def _running(at: _At) -> Step:
    if end := _own_end(at):
        return at.ending(end)
    at = _watched(at)
    signs = at.seen.signs
    if signs is None:  # nothing is concluded from a store that does not answer
        return at.stay()
    if signs.starts > at.terms.max_starts:
        return at.ending(End.CRASHLOOP)
    silence_s = signs.beat_age_s
    if silence_s is None:  # it did beat, so this listing was made while its beats changed
        return at.stay()
    if silence_s > at.terms.stall_s:
        return at.ending(End.STALLED)
    if silence_s <= _SILENT * at.terms.beat_s:  # it lives, whatever the platform says of it
        return at.stay(looks=0)
    if at.machine and at.machine.state is MachineState.ENDED:
        return at.ending(End.INTERRUPTED)
    return _missed(at) if at.is_missing else at.stay(looks=0 if at.machine else at.lease.looks)


def _own_end(at: _At) -> End | None:
    """What ends a machine whatever else is the case."""
    if at.exit:
        return at.exit.reason
    if at.lease.is_cancelled:
        return End.CANCELLED
    is_over = at.now_s > at.lease.deadline_s + at.terms.limits.grace_s
    return End.CAP if is_over else None


def _missed(at: _At) -> Step:
    looks = at.lease.looks + 1
    return at.ending(End.INTERRUPTED) if looks >= _ABSENT else at.stay(looks=looks)


def _watched(at: _At) -> _At:
    """The lease with the uptime of its machine, and with the machine that works for its nonce."""
    lease, uptime_s = at.lease, at.machine.uptime_s if at.machine else None
    if at.claimed and at.claimed != lease.machine:
        lease = lease._replace(machine=at.claimed)
    if uptime_s is not None:
        restarts = lease.restarts + (uptime_s < lease.uptime_s)
        lease = lease._replace(uptime_s=uptime_s, restarts=restarts)
    return at._replace(lease=lease)


# -- after the machine -----------------------------------------------------------------------------


def _terminating(at: _At) -> Step:
    lease, is_old = at.lease, at.now_s - at.lease.made_s >= at.terms.limits.visible_s
    is_gone = at.is_missing or bool(at.machine and not _costs(at.machine))
    looks = lease.looks + is_gone if at.seen.machines is not None else lease.looks
    if is_gone and looks == 1:
        at = at._replace(lease=lease._replace(gone_s=at.now_s))
    if is_gone and looks >= _ABSENT and is_old:
        return at.to(Phase.GONE)
    if at.machine and not is_gone:
        looks = 0
    due = at.now_s - lease.asked_s >= at.terms.again_s
    asked = {"asked_s": at.now_s} if due else {}
    stop = (Stop(lease.machine),) if due else ()
    told, tell = _alarm(at)
    return at.stay(*stop, *tell, looks=looks, **asked, **told)


def _alarm(at: _At) -> tuple[dict[str, float], tuple[Tell, ...]]:
    lease, alarm_s = at.lease, at.terms.alarm_s
    if at.age_s < alarm_s or at.now_s - lease.told_s < alarm_s:
        return {}, ()
    text = (
        f"machine {lease.machine} of {lease.cell} on {lease.platform} does not end: "
        f"asked for {at.age_s:.0f} s, and still asking.  End it in the platform's console."
    )
    return {"told_s": at.now_s}, (Tell(text),)


def _gone(at: _At) -> Step:
    lease = at.lease
    if at.machine and _costs(at.machine):
        return at.ending(lease.end or End.INTERRUPTED, at.machine.id)
    if at.seen.signs is None:
        return at.stay()
    end = _ended(at)
    actions: list[Action] = []
    if end is End.DONE and at.seen.verified is None and at.exit:
        actions.append(Verify(at.exit.records))
    if not at.seen.is_charged:
        actions.append(Charge(lease.begin_s, lease.gone_s))
    return at.stay(*actions) if actions else _after(at, end)


def _ended(at: _At) -> End:
    """Why the machine ended: its own record counts, and without one it did not end by itself."""
    if at.exit is None:
        end = at.lease.end or End.INTERRUPTED
        return End.INTERRUPTED if end in {End.DONE, End.FAILED} else end
    if at.exit.reason is not End.DONE:
        return at.exit.reason
    if at.exit.code != 0:
        return End.FAILED
    return End.UNVERIFIED if at.seen.verified is False else End.DONE


def _after(at: _At, end: End) -> Step:
    if end is End.DONE:
        return at.to(Phase.SUCCESS, end=end)
    if at.lease.is_cancelled:
        return at.to(Phase.ERROR, end=End.CANCELLED)
    signs = at.seen.signs.checkpoint if at.seen.signs else 0
    checkpoint = max(signs, at.exit.checkpoint if at.exit else 0)
    counted = at._replace(lease=chain.counted(at.lease, end, checkpoint, at.now_s, at.terms))
    if final := chain.final(counted.lease, end, at.now_s, at.terms):
        return counted.to(Phase.ERROR, end=final)
    return counted.to(Phase.PLANNED, end=end, next_s=counted.lease.next_s)


# -- what must not be there ------------------------------------------------------------------------


def _strays(lease: Lease, seen: Seen) -> Iterator[Stop]:
    """Machines of this subject that its lease does not want: earlier ones, and doubles."""
    for machine in seen.machines or ():
        name = find_name(machine.name)
        if name is None or name.subject != lease.subject[:12] or not _costs(machine):
            continue
        is_newest = name.nonce == lease.nonce and lease.phase not in _WITHOUT
        is_wanted = is_newest and (lease.phase in _EXPECTING or machine.id == lease.machine)
        if name.attempt <= lease.attempt and not is_wanted:
            yield Stop(machine.id)


_EXPECTING = {Phase.CREATING, Phase.RECONCILE}
"""The machine of the newest nonce may be there, and its id is not known."""
_WITHOUT = {Phase.PLANNED, Phase.SUCCESS, Phase.ERROR}
"""No machine may be there."""


def _costs(machine: Machine) -> bool:
    return machine.is_billing or machine.state is not MachineState.ENDED


def _nonce(machine: Machine) -> str:
    name = find_name(machine.name)
    return name.nonce if name else ""


_STEPS: dict[Phase, Callable[[_At], Step]] = {
    Phase.PLANNED: _planned,
    Phase.INTENT: _intent,
    Phase.CREATING: _creating,
    Phase.RECONCILE: _reconcile,
    Phase.BOOTING: _booting,
    Phase.RUNNING: _running,
    Phase.TERMINATING: _terminating,
    Phase.GONE: _gone,
    Phase.SUCCESS: lambda at: at.stay(),
    Phase.ERROR: lambda at: at.stay(),
}
