"""A lease: our recorded claim on a paid machine, from the plan to the end that was confirmed.

    PLANNED -> INTENT -> CREATING -> BOOTING -> RUNNING -> TERMINATING -> GONE -> SUCCESS | ERROR
       ^                  |   ^         ^                                  |
       |             RECONCILE ---------+                                  |
       +--------------- the next machine of the same subject --------------+

Values only; `quantgrid.rental.steps` says what follows from what.
"""

import json
from enum import StrEnum
from typing import Any, NamedTuple

from quantgrid.errors import DataFault
from quantgrid.rental.errors import Trouble
from quantgrid.rental.port import Candidate, Limits, Machine, Name, Price

_VERSION = 1


class Phase(StrEnum):
    """How far a lease is."""

    PLANNED = "planned"
    """A machine is wanted; none was asked for."""
    INTENT = "intent"
    """A name and a price are written down; the money is not yet cleared."""
    CREATING = "creating"
    """The call is made, or about to be."""
    RECONCILE = "reconcile"
    """The call may have been done: looking by name."""
    BOOTING = "booting"
    """There is a machine; it gave no sign of life yet."""
    RUNNING = "running"
    """It beats."""
    TERMINATING = "terminating"
    """It has to end; asked again and again until it is gone."""
    GONE = "gone"
    """Nothing of it costs anything; what it left is looked at and its cost written down."""
    SUCCESS = "success"
    """The records are there and were verified."""
    ERROR = "error"
    """No further machine will be rented for it."""

    @property
    def is_over(self) -> bool:
        """Whether the lease has ended."""
        return self in {Phase.SUCCESS, Phase.ERROR}


class End(StrEnum):
    """Why a machine ended, or why none was made; the first seven are reasons of exit records."""

    DONE = "done"
    FAILED = "failed"
    CAP = "cap"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    LEASE_LOST = "lease_lost"
    STALLED = "stalled"
    CRASHLOOP = "crashloop"
    SLOW_BOOT = "slow_boot"
    UNVERIFIED = "unverified"
    """It said that it was done, and its records are not there or not what they should be."""
    NEVER_MADE = "never_made"
    LATE = "late"
    """Nobody made the call in time; nothing was asked for."""
    NO_CAPACITY = "no_capacity"
    BURN_RATE = "burn_rate"
    """One more machine would cost too much an hour: later."""
    ACCOUNT = "account"
    BUDGET = "budget"
    FATAL = "fatal"
    NO_PROGRESS = "no_progress"
    CANCELLED = "cancelled"


class Terms(NamedTuple):
    """What a lease may take and how patient its controller is; times in seconds.

    Args:
        candidates: The kinds of machine that will do, in this order and then again.
        limits: Those of the platform.
        run_s: How long one machine should compute; the cap of the platform cuts it.
        max_links: Machines that a resume chain is planned for at most.
        max_interruptions: Machines that the platform may take away or lose.
        max_failures: Attempts that may fail before the lease does, the last one not counted.
        capacity_s: How long to go on asking when nothing is free.
        wait_s: Between two such questions.
        beat_s: Between two signs of life of a machine.
        stall_s: Silence after which a machine is ended, whatever the platform says of it.
        max_starts: Starts of the first process in one machine before it counts as a crash loop.
        looks: How often a machine must be missing before it is believed to be.
        look_s: Over how long those looks must reach when a create may have been done.
        again_s: Between two requests to end.
        alarm_s: After which a machine that does not end is told to a person, again and again.
    """

    candidates: tuple[Candidate, ...]
    limits: Limits
    run_s: float
    max_links: int = 3
    max_interruptions: int = 10
    max_failures: int = 1
    capacity_s: float = 86_400.0
    wait_s: float = 60.0
    beat_s: float = 60.0
    stall_s: float = 900.0
    max_starts: int = 3
    looks: int = 3
    look_s: float = 60.0
    again_s: float = 30.0
    alarm_s: float = 900.0

    def candidate(self, turn: int) -> Candidate:
        """The kind of machine whose turn it is."""
        return self.candidates[turn % len(self.candidates)]

    @property
    def life_s(self) -> float:
        """From the intent to the deadline of a machine: never more than the platform's cap."""
        return min(self.limits.boot_s + self.run_s, self.limits.cap_s)


class Lease(NamedTuple):
    """The state of a lease; what only one controller needs for a while is at the end.

    Args:
        subject: What it is for: 64 hex digits, such as the fingerprint of a job.
        cell: The same for a person.
        grid: Whose money it is.
        platform: Where; stays true when the configuration changes.
        account: The pin of who pays there.
        phase: How far it is.
        since_s: Since when.
        by: The controller that wrote this state.
        attempt: Number of the newest machine, from 1; 0 before any.
        nonce: Of the newest machine.
        candidate: What kind it is.
        machine: The platform's id of it; empty while unknown.
        begin_s: When its money began to count.
        deadline_s: When it ends itself.
        made_s: When its machine was first known to be there.
        gone_s: When it was seen to be gone.
        end: Why it ended, as far as known.
        is_cancelled: Nobody wants the result any more; sticks.
        checkpoint: Tokens of the newest checkpoint when the newest machine was planned.
        links: Machines that reached their cap.
        idle_links: How many of the last ones brought no newer checkpoint.
        interruptions: Machines that were taken away, lost or never came.
        failures: Attempts that failed by themselves.
        waits: Calls that found nothing free, or no money for the hour, or came too late.
        turn: Which candidate is next.
        fatals: Candidates in a row that can never succeed.
        slow_boots: Machines in a row that never gave a sign of life.
        short_s: Since when nothing is free; 0 when the last call was about something else.
        next_s: Nothing is done before.
        looks: Looks in a row that did not show the machine.
        asked_s: When it was last asked to end.
        told_s: When a person was last told that it does not end.
        uptime_s: The uptime that was last seen.
        restarts: How often the uptime went back.
    """

    subject: str
    cell: str
    grid: str
    platform: str
    account: str
    phase: Phase = Phase.PLANNED
    since_s: float = 0.0
    by: str = ""
    attempt: int = 0
    nonce: str = ""
    candidate: Candidate = Candidate("", 0, "", Price(0, "", ""))
    machine: str = ""
    begin_s: float = 0.0
    deadline_s: float = 0.0
    made_s: float = 0.0
    gone_s: float = 0.0
    end: End | None = None
    is_cancelled: bool = False
    checkpoint: int = 0
    links: int = 0
    idle_links: int = 0
    interruptions: int = 0
    failures: int = 0
    waits: int = 0
    turn: int = 0
    fatals: int = 0
    slow_boots: int = 0
    short_s: float = 0.0
    next_s: float = 0.0
    looks: int = 0
    asked_s: float = 0.0
    told_s: float = 0.0
    uptime_s: float = 0.0
    restarts: int = 0

    def name(self, owner: str) -> Name:
        """The name of the newest machine."""
        return Name(owner, self.subject[:12], self.attempt, self.nonce)

    def durable(self) -> "Lease":
        """What the register keeps: all that another controller must not lose."""
        return self._replace(looks=0, asked_s=0.0, told_s=0.0, uptime_s=0.0, restarts=0, by="")

    def to_bytes(self) -> bytes:
        """What is stored."""
        candidate = self.candidate._asdict() | {"price": self.candidate.price._asdict()}
        fields = self.durable()._asdict() | {"candidate": candidate, "by": self.by}
        return json.dumps(fields | {"version": _VERSION}, sort_keys=True).encode()

    @classmethod
    def parse(cls, data: bytes, where: str) -> "Lease":
        """Read a state.

        Raises:
            DataFault: when it is none.
        """
        try:
            fields = json.loads(data)
            if fields.pop("version") != _VERSION:
                raise ValueError
            return cls(**fields | _values(fields))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataFault(
                "the state of a lease cannot be read",
                expected=f"JSON of version {_VERSION}",
                seen=repr(data[:60]),
                where=where,
                do="Look for its machine at the platform before you remove that key.",
            ) from error


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    candidate = fields["candidate"]
    return {
        "phase": Phase(fields["phase"]),
        "end": End(fields["end"]) if fields["end"] else None,
        "candidate": Candidate(**candidate | {"price": Price(**candidate["price"])}),
    }


# -- what a controller sees -----------------------------------------------------------------------


class Exit(NamedTuple):
    """The exit record of a machine; `code` is that of the job's process."""

    nonce: str
    machine: str
    reason: End
    code: int
    checkpoint: int
    records: tuple[str, ...] = ()


class Signs(NamedTuple):
    """What the register says of the newest machine of a lease.

    Args:
        beat_age_s: Age of the newest sign of life by the store's clock; None without any.
        checkpoint: Tokens of the newest checkpoint that it told of.
        starts: How often its first process started.
        claimed: Id of the machine that works for the nonce; empty before it says so.
        exit: How it ended, by itself.
    """

    beat_age_s: float | None = None
    checkpoint: int = 0
    starts: int = 0
    claimed: str = ""
    exit: Exit | None = None


class Reply(NamedTuple):
    """How the create call for a nonce ended.

    Args:
        nonce: The nonce.
        machine: Id of the machine, when it was done.
        trouble: Its class otherwise.
        retry_after_s: The wait that the platform asks for.
    """

    nonce: str
    machine: str = ""
    trouble: Trouble | None = None
    retry_after_s: float = 0.0


class Funds(StrEnum):
    """What the money says of one more machine."""

    CLEAR = "clear"
    WAIT = "wait"
    REFUSED = "refused"


class Seen(NamedTuple):
    """All that happened since the last step; None is "not looked" and never "nothing there".

    Args:
        fresh: A nonce that was never given.
        funds: The answer to `Fund`; before there is an intent, what it would be.
        reply: The answer to `Launch`.
        machines: The machines whose names say this subject, from one look at the platform.
        signs: What the register says of the newest machine.
        verified: The answer to `Verify`.
        is_charged: Whether the cost of the newest machine is written down.
        is_cancelled: Whether somebody asked to end it all.
        is_orphaned: Whether the controller that made the create call is dead for sure.
    """

    fresh: str = ""
    funds: Funds | None = None
    reply: Reply | None = None
    machines: tuple[Machine, ...] | None = None
    signs: Signs | None = None
    verified: bool | None = None
    is_charged: bool = False
    is_cancelled: bool = False
    is_orphaned: bool = False


# -- what is to be done, after the new state is written down ---------------------------------------


class Fund(NamedTuple):
    """Write down what the machine may cost at most, and ask whether that is allowed."""


class Launch(NamedTuple):
    """Create the machine of the lease, unless it is later than `before_s` when the call begins."""

    before_s: float


class Find(NamedTuple):
    """Look for the machine of the lease by its name."""


class Stop(NamedTuple):
    """Ask that a machine ends."""

    machine: str


class Verify(NamedTuple):
    """Read the records that a machine says it deposited, and check them."""

    records: tuple[str, ...]


class Charge(NamedTuple):
    """Write down what a machine cost: from when to when, at its price."""

    begin_s: float
    end_s: float


class Tell(NamedTuple):
    """Say something to a person."""

    text: str


Action = Fund | Launch | Find | Stop | Verify | Charge | Tell
Step = tuple[Lease, tuple[Action, ...]]
