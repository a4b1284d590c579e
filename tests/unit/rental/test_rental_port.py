"""Names tell our machines from others, and troubles tell what may be done next."""

import pytest

from quantgrid.errors import PlatformFault
from quantgrid.rental.errors import Answer, Call, CallFault, Trouble, http_trouble
from quantgrid.rental.port import Name, find_name

NAME = Name("0a1b2c3d", "f" * 12, 17, "012345abcdef")


def test_name_is_read_back_when_a_platform_shows_it() -> None:
    """A name says the same after a way through the platform, and every platform accepts it."""
    assert find_name(str(NAME)) == NAME
    assert len(str(NAME._replace(attempt=999_999))) <= 44


@pytest.mark.parametrize(
    "foreign",
    ["", "trainer", "qg-", f"x{NAME}", f"{NAME}x", f"{NAME}\n", str(NAME).upper(), "qg-1-2-3-4"],
)
def test_name_is_not_ours_when_we_did_not_give_it(foreign: str) -> None:
    """Another machine's name, even one that begins like ours, is nobody's of us."""
    assert find_name(foreign) is None


@pytest.mark.parametrize(
    ("call", "status", "trouble"),
    [
        (Call.LAUNCH, 0, Trouble.AMBIGUOUS),
        (Call.LAUNCH, 200, Trouble.AMBIGUOUS),
        (Call.LAUNCH, 408, Trouble.AMBIGUOUS),
        (Call.LAUNCH, 500, Trouble.AMBIGUOUS),
        (Call.LAUNCH, 504, Trouble.AMBIGUOUS),
        (Call.LAUNCH, 429, Trouble.RETRY),
        (Call.LAUNCH, 409, Trouble.ALREADY),
        (Call.LAUNCH, 402, Trouble.ACCOUNT),
        (Call.LAUNCH, 422, Trouble.FATAL),
        (Call.STOP, 0, Trouble.RETRY),
        (Call.STOP, 503, Trouble.RETRY),
        (Call.MACHINES, 401, Trouble.ACCOUNT),
        (Call.VOLUME, 404, Trouble.FATAL),
    ],
)
def test_trouble_is_classed_when_http_answers(call: Call, status: int, trouble: Trouble) -> None:
    """A create that may have been done is never called not done."""
    assert http_trouble(Answer(call, status)) is trouble


def test_call_fault_says_its_class_when_raised() -> None:
    """A person reads which call it was, and the program which class."""
    fault = CallFault(Trouble.RETRY, Call.STOP, seen="HTTP 503", retry_after_s=3.0)

    assert isinstance(fault, PlatformFault)
    assert (fault.trouble, fault.call, fault.retry_after_s) == (Trouble.RETRY, Call.STOP, 3.0)
    assert str(fault) == "platform trouble: the call stop ended as retry; seen HTTP 503."
