"""What can go wrong with a call to a platform, and what may be done about it: one enum for all.

Every call has three outcomes.  It returns: done.  It raises `CallFault` with `AMBIGUOUS`: it may
have taken effect, so look before repeating.  It raises with any other trouble: not done.
"""

from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

from quantgrid.errors import PlatformFault


class Trouble(StrEnum):
    """Classes of trouble; each adapter maps the errors of its platform to them."""

    RETRY = "retry"
    """Not done, and the same call may be made again."""
    AMBIGUOUS = "ambiguous"
    """It may have taken effect: look by name before anything else."""
    CAPACITY = "capacity"
    """Nothing of the kind is free: another candidate, or later; counts as no failure."""
    ALREADY = "already"
    """The name is taken by a machine of ours: adopt it."""
    ACCOUNT = "account"
    """Key, scope, balance, pin or budget: stop submitting, keep what runs."""
    FATAL = "fatal"
    """The same call can never succeed."""
    INTERRUPTED = "interrupted"
    """The machine was taken away: resume from the newest checkpoint."""


class Call(StrEnum):
    """The calls of the port, as faults and doubles name them."""

    WHOAMI = "whoami"
    VOLUME = "volume"
    CANDIDATES = "candidates"
    LAUNCH = "launch"
    FIND = "find"
    MACHINES = "machines"
    OBSERVE = "observe"
    STOP = "stop"
    LOGS = "logs"
    STATEMENTS = "statements"


class CallFault(PlatformFault):
    """A call to a platform that did not return.

    Args:
        trouble: Its class, which decides what is done next.
        call: Which call.
        seen: What the platform answered, without any secret.
        retry_after_s: Seconds that the platform asks to wait.
    """

    word = "platform trouble"

    def __init__(
        self, trouble: Trouble, call: Call, *, seen: object = None, retry_after_s: float = 0.0
    ) -> None:
        self.trouble, self.call, self.retry_after_s = trouble, call, retry_after_s
        super().__init__(f"the call {call} ended as {trouble}", seen=seen)


class Answer(NamedTuple):
    """What a platform answered to a call that was not done as asked.

    Args:
        call: The call.
        status: The HTTP status, or 0 when no whole reply came (time-out, reset, bad body).
        detail: The platform's own words.
    """

    call: Call
    status: int
    detail: str = ""


Classify = Callable[[Answer], Trouble]
"""The hook of an adapter: pure, from what was answered to the class of trouble."""


def http_trouble(answer: Answer) -> Trouble:
    """The class of an HTTP answer where a platform says nothing better about it.

    A create without a whole reply may have been done; every other call may be made again.
    """
    status, is_create = answer.status, answer.call is Call.LAUNCH
    if status == HTTPStatus.TOO_MANY_REQUESTS:  # refused before anything was done
        return Trouble.RETRY
    if status in _NO_REPLY or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status < _FIRST_ERROR:
        return Trouble.AMBIGUOUS if is_create else Trouble.RETRY
    if status in _ACCOUNT:
        return Trouble.ACCOUNT
    return Trouble.ALREADY if is_create and status == HTTPStatus.CONFLICT else Trouble.FATAL


_FIRST_ERROR = HTTPStatus.BAD_REQUEST
_NO_REPLY = {0, HTTPStatus.REQUEST_TIMEOUT}
_ACCOUNT = {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN}
