"""Every way quantgrid stops, with its exit code and failure class.

    QuantgridError
    |-- Refusal              78  refusal      a deliberate stop before harm; never retried
    |   |-- ConfigRefusal    78  refusal      a setting, grid or spec that cannot be meant
    |   |-- CorpusRefusal    78  refusal      the corpus seen differs from the corpus sealed
    |   |-- ArchiveRefusal   78  refusal      another archive, or one that lost records
    |   |-- VolumeRefusal    78  refusal      a volume that would lose the work, or another one
    |   |-- HoldRefusal      78  held         somebody else computes this cell
    |   `-- BudgetRefusal    78  budget       it would cost more than was allowed
    |-- Checkpointed         75  preemption   state is saved: run me again
    |-- Interrupted          75  preemption   ended from outside: what was saved before is kept
    |-- Alarm                76  science      a running cell judges that it computes the wrong thing
    `-- Fault                70  code         something went wrong; recorded with evidence
        |-- DataFault        65  data         bytes that are not what their digest says
        |-- DeviceFault      69  device       an accelerator that is lost, full or wrong
        `-- PlatformFault    71  platform     disk, network or service of the machine
            |-- CallFault    71  platform     a call to a rented platform that did not return
            |-- Unanswered   71  platform     a store did not answer within its caller's patience
            `-- Waiting      71  platform     work that is done and waits to be deposited

Exit codes are those of the cell contract: 0 done, 75 run me again, 78 refusal, others fault.
The numbers are BSD's sysexits(3), which no shell and no signal (128 + n) uses.
"""

from enum import StrEnum
from typing import ClassVar

EXIT_DONE = 0


class FailureClass(StrEnum):
    """What kind of trouble ended an attempt; the class decides whether it is tried again."""

    CODE = "code"
    DATA = "data"
    DEVICE = "device"
    PLATFORM = "platform"
    PREEMPTION = "preemption"
    BUDGET = "budget"
    REFUSAL = "refusal"
    SCIENCE = "science"
    HELD = "held"

    @property
    def is_remembered(self) -> bool:
        """Whether the same fingerprint would fail again, so that nobody pays for it twice."""
        return self in {FailureClass.CODE, FailureClass.DATA, FailureClass.REFUSAL}


class QuantgridError(Exception):
    """Base of all: a sentence for a person, with what was expected and seen and what to do next.

    Args:
        what: What was refused or what failed, as one clause.
        expected: What should have been there.
        seen: What was there.
        where: File, key or cell.
        do: The next step for a person.
    """

    exit_code: ClassVar[int] = 70
    failure_class: ClassVar[FailureClass] = FailureClass.CODE
    word: ClassVar[str] = "failed"

    def __init__(
        self,
        what: str,
        *,
        expected: object = None,
        seen: object = None,
        where: object = None,
        do: str | None = None,
    ) -> None:
        self.what, self.expected, self.seen, self.where, self.do = what, expected, seen, where, do
        super().__init__(self.message())

    def message(self) -> str:
        """The sentence that a person reads."""
        parts = [f"{self.word}: {self.what}"]
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.seen is not None:
            parts.append(f"seen {self.seen}")
        text = "; ".join(parts)
        if self.where is not None:
            text += f" ({self.where})"
        text += "" if text.endswith("?") else "."
        return f"{text} {self.do}" if self.do else text


class Refusal(QuantgridError):
    """A deliberate stop before harm."""

    exit_code = 78
    failure_class = FailureClass.REFUSAL
    word = "refused"


class ConfigRefusal(Refusal):
    """A setting, grid or spec that cannot be meant."""


class CorpusRefusal(Refusal):
    """The corpus as this process sees it is not the corpus that was sealed."""


class ArchiveRefusal(Refusal):
    """Another archive than the one this working copy deposited into, or one that lost records."""


class VolumeRefusal(Refusal):
    """A volume that would not keep what is written to it, or another one than the pinned one."""


class HoldRefusal(Refusal):
    """Somebody else computes this cell: no failure of anything here."""

    failure_class = FailureClass.HELD


class BudgetRefusal(Refusal):
    """It would cost more than was allowed."""

    failure_class = FailureClass.BUDGET


class Checkpointed(QuantgridError):
    """State is saved and the work is not finished: run the same cell again."""

    exit_code = 75
    failure_class = FailureClass.PREEMPTION
    word = "checkpointed"


class Interrupted(QuantgridError):
    """Ended from outside before it was finished: no failure, and what was saved before is kept."""

    exit_code = 75
    failure_class = FailureClass.PREEMPTION
    word = "interrupted"


class Alarm(QuantgridError):
    """A running cell's own judgement that it computes the wrong thing."""

    exit_code = 76
    failure_class = FailureClass.SCIENCE
    word = "alarm"


class Fault(QuantgridError):
    """Something went wrong in the code of a cell."""


class DataFault(Fault):
    """Bytes that are not what their digest or their format says."""

    exit_code = 65
    failure_class = FailureClass.DATA


class DeviceFault(Fault):
    """An accelerator that is lost, full or computes wrong."""

    exit_code = 69
    failure_class = FailureClass.DEVICE


class PlatformFault(Fault):
    """Disk, network or a service of the machine."""

    exit_code = 71
    failure_class = FailureClass.PLATFORM


class Unanswered(PlatformFault):
    """A store that did not answer within the patience of its caller."""


class Waiting(PlatformFault):
    """A deposit that has to wait: the work is done, and lies on the volume."""
