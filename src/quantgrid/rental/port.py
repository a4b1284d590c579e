"""What is asked of a platform that rents machines; every adapter and every double offers it.

All moments (`*_s`) are seconds since 1970 by the clock of the register's store: the machines, the
controller and the platform may each have another idea of the time.  Money is whole micro-dollars.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol


class Price(NamedTuple):
    """What an hour costs: data, with its source and the date of the look."""

    microusd_per_h: int
    source: str
    date: str


class Candidate(NamedTuple):
    """One way to get a machine.

    Args:
        device: The platform's name of the accelerator; empty for none.
        num_devices: How many; always sent, for a platform may match nothing without it.
        region: Data centre or region; empty for any.
        price: Of the whole machine.
    """

    device: str
    num_devices: int
    region: str
    price: Price


class Name(NamedTuple):
    """What the name of a machine says; it is our tag, and unique for ever by its nonce.

    Args:
        owner: Eight hex digits of the register that the machine is recorded in.
        subject: First twelve hex digits of what it is rented for.
        attempt: Number of the machine for that subject, from 1.
        nonce: Twelve random hex digits.
    """

    owner: str
    subject: str
    attempt: int
    nonce: str

    def __str__(self) -> str:
        """At most 44 characters of `[a-z0-9-]`, which every platform accepts."""
        return f"qg-{self.owner}-{self.subject}-{self.attempt}-{self.nonce}"


_NAME = re.compile(r"qg-([0-9a-f]{8})-([0-9a-f]{12})-(\d{1,6})-([0-9a-f]{12})")


def find_name(text: str) -> Name | None:
    """What a machine's name says, or None for one that we did not give."""
    found = _NAME.fullmatch(text)
    return Name(found[1], found[2], int(found[3]), found[4]) if found else None


class Order(NamedTuple):
    """Everything that a machine is launched with.

    Args:
        name: Its name.
        candidate: Which kind of machine, where, at which price.
        image: Container image, by digest.
        command: The first process, as a list of words; no secret is among them.
        environment: Names and values that it sees; no secret is among them.
        secrets: Names of secrets that the platform itself puts into the environment.
        volume: Id of the volume to mount; empty for none.
        mount: Where it is mounted.
        deadline_s: When the machine ends itself, come what may.
        options: What only some platforms know, such as the size of a disk; others pass it by.
    """

    name: Name
    candidate: Candidate
    image: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    volume: str
    mount: str
    deadline_s: float
    options: tuple[tuple[str, str], ...] = ()


class MachineState(StrEnum):
    """What a platform says of a machine; nobody concludes success from it."""

    BOOTING = "booting"
    RUNNING = "running"
    ENDED = "ended"


class Machine(NamedTuple):
    """A machine as the platform shows it.

    Args:
        id: The platform's id of it.
        name: As it was given; parse it with `find_name`.
        state: What the platform says.
        is_billing: Whether it costs anything, a stopped one's disk included.
        uptime_s: Seconds since its container started, which a restart sets back; None if untold.
        exit_code: What the platform reports of its end; evidence for a person only.
    """

    id: str
    name: str
    state: MachineState
    is_billing: bool
    uptime_s: float | None = None
    exit_code: int | None = None


class Account(NamedTuple):
    """Who pays: a pin that is compared before the first create.

    Args:
        id: Workspace and environment, in the platform's words.
        balance_microusd: What is left, None if untold.
    """

    id: str
    balance_microusd: int | None = None


class VolumeFacts(NamedTuple):
    """Named storage as the platform knows it; the id is its identity."""

    id: str
    name: str
    region: str
    size_bytes: int


class Ended(NamedTuple):
    """A machine that is gone, and was charged by our own measure.

    Args:
        name: Its name.
        id: The platform's id of it; empty when nobody ever saw it, or it was never made.
        begin_s: From when it was charged.
        end_s: Until when.
    """

    name: Name
    id: str
    begin_s: float
    end_s: float


class Statement(NamedTuple):
    """What a machine cost by its platform's own word, and for good.

    Args:
        microusd: The amount.
        begin_s: First whole second of what is billed.
        end_s: Its last one.
    """

    microusd: int
    begin_s: int
    end_s: int


class Limits(NamedTuple):
    """What a platform allows and how slow it is; each number has its source where it is declared.

    Args:
        cap_s: The longest life of a machine.
        grace_s: Seconds between the signal and the kill.
        boot_s: After which a machine without a sign of life is given up.
        create_s: The longest that a create call takes.
        visible_s: How long a fresh machine may be missing in `find` and `machines`.
    """

    cap_s: float
    grace_s: float
    boot_s: float
    create_s: float
    visible_s: float


class Platform(Protocol):
    """A platform that rents machines, for one account.

    Every call raises `CallFault`, whose trouble says what may be done next; none takes for ever.
    """

    @property
    def name(self) -> str:
        """Its name, as in config/platforms."""

    @property
    def limits(self) -> Limits:
        """What it allows."""

    def whoami(self) -> Account:
        """The account that would pay."""

    def volume(self, id: str, /) -> VolumeFacts | None:  # noqa: A002 - the platform's word
        """The volume with an id, or None; never makes one."""

    def candidates(self, device: str, num_devices: int) -> tuple[Candidate, ...]:
        """The ways to get a machine now, the best first; an answer promises nothing."""

    def launch(self, order: Order) -> Machine:
        """Create one machine; may take minutes, so never call it where somebody waits."""

    def find(self, name: str) -> Machine | None:
        """The machine with a name, ended ones included if the platform still shows them."""

    def machines(self, owner: str) -> tuple[Machine, ...]:
        """All machines whose names begin with an owner's: one listing for all leases."""

    def observe(self, id: str, /) -> Machine | None:  # noqa: A002 - the platform's word
        """One machine, or None when the platform does not show it."""

    def stop(self, id: str, /) -> None:  # noqa: A002 - the platform's word
        """Ask that a machine ends, for ever; returning says that it was asked, not that it ended.

        One that is not there is no error, and no proof that it is gone.
        """

    def statements(self, ended: Sequence[Ended]) -> Mapping[str, Statement]:
        """What machines did cost, by their names; only figures that will not change any more.

        What is missing is asked for again later, and an adapter whose platform says nothing final
        says nothing.
        """

    def logs(self, id: str, tail: int, /) -> str:  # noqa: A002 - the platform's word
        """The last lines that a machine wrote, for diagnosis only."""
