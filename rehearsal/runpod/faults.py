"""What goes wrong with a request: asked for by operation and number, before or after its effect."""

from typing import Any

KINDS = {
    "answer",  # a status of choice instead of any effect
    "html",  # the page of a content network, with a status of choice
    "answer-after",  # the effect, and then a status of choice
    "html-after",
    "lost",  # the effect, and then the connection breaks without a byte
    "reset",  # the connection breaks, without any effect
    "cut",  # the effect, and then half of the reply
    "slow",  # the effect, and the reply after some seconds of a watch
    "silent",  # no effect, and nothing is answered for some seconds of a watch
    "stale",  # a list as it was some seconds ago
}
AFTER = {"answer-after", "html-after", "lost", "cut", "slow", "stale"}


def add(faults: list[dict[str, Any]], fault: dict[str, Any]) -> None:
    """Ask for a fault.

    Args:
        faults: Those that are asked for.
        fault: `operation`, `kind`, and if wanted `nth` (from 1, counted from now on; None is
            every), `status`, `detail`, `seconds`, `retry_after_s`.
    """
    if fault["kind"] not in KINDS:
        raise ValueError(f"no kind of fault: {fault['kind']}; there are {', '.join(sorted(KINDS))}")
    faults.append({"nth": 1, "seen": 0, "status": 500, "detail": "", "seconds": 0.0} | fault)


def due(faults: list[dict[str, Any]], operation: str) -> dict[str, Any] | None:
    """The fault of this request; every request is counted, and a fault that came is over."""
    found = None
    for fault in [each for each in faults if each["operation"] in {operation, "any"}]:
        fault["seen"] += 1
        if found is None and fault["nth"] in {None, fault["seen"]}:
            found = fault
    if found and found["nth"] is not None:
        faults.remove(found)
    return found
