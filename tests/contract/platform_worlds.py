"""The platforms that have to pass the contract of the port, and what the contract asks of each.

A further platform is one module with one function, and one line in `WORLDS`.
"""

import importlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from quantgrid.rental.errors import Call, CallFault
from quantgrid.rental.port import Machine, MachineState, Name, Order, Platform


class PlatformWorld(Protocol):
    """A platform that a test may use, break and pay for."""

    @property
    def platform(self) -> Platform:
        """The adapter under test, for the account that pays."""

    @property
    def volumes(self) -> Mapping[str, str]:
        """Ids: `good`; `twin`, another one of the same name; `empty`, of no size, if any."""

    def order(self, name: Name, words: tuple[str, ...], **changes: object) -> Order:
        """What the cheapest machine is launched with."""

    def other_account(self) -> Platform | None:
        """The same platform for somebody else; None where that cannot be played."""

    def advance(self, seconds: float) -> None:
        """Let nominal seconds go by for the platform."""

    def fault(self, call: Call, nth: int, kind: str) -> bool:
        """Let the nth next call fail; False where that cannot be played.

        Kinds: `before` (an error, nothing done), `after` (done, and no reply), `delay` (done, and
        the reply comes after the client's patience), `stale` (an answer from before the newest
        machine), `capacity` (nothing free), `account` (the key or the money is no good), `busy`
        (too many calls).
        """

    def billing(self) -> set[str]:
        """Ids of all machines that cost something now, by the platform's own word."""

    def bill_microusd(self) -> float:
        """What the account owes, by the platform's own word."""


World = Callable[[Path], AbstractContextManager[PlatformWorld]]
WORLDS = {"plain": "plain_world", "runpod": "runpod_world", "modal": "modal_world"}
"""Name of a platform to the module whose function `world` plays it."""


def world_of(platform: str) -> World:
    """What plays a platform; imported late, for a vendor's package may be slow to import."""
    found: World = importlib.import_module(WORLDS[platform]).world
    return found


OWNER = "0badcafe"
PATIENCE_S = 180.0
SLEEP = ("sleep", "600")


def until(is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait until something is so, and fail when it never is."""
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, "it never came to be so"
        time.sleep(0.05)


_count = iter(range(1, 1_000_000))


def fresh(owner: str = OWNER, attempt: int = 1) -> Name:
    """A name that was never given."""
    return Name(owner, f"{next(_count):012x}", attempt, f"{next(_count):012x}")


def launched(
    world: PlatformWorld, words: tuple[str, ...] = SLEEP, **changes: object
) -> tuple[Machine, Name]:
    """A machine that runs."""
    name = fresh()
    machine = world.platform.launch(world.order(name, words, **changes))
    return machine, name


def running(world: PlatformWorld, machine: str) -> Machine:
    """The machine as soon as it is shown as running."""
    seen: list[Machine] = []

    def is_running() -> bool:
        found = world.platform.observe(machine)
        seen.extend([found] if found else [])
        return found is not None and found.state is MachineState.RUNNING

    until(is_running)
    return seen[-1]


def trouble(call: Callable[[], object]) -> CallFault:
    """The fault that a call must end with."""
    with pytest.raises(CallFault) as caught:
        call()
    return caught.value


def play(world: PlatformWorld, call: Call, kind: str, nth: int = 1) -> None:
    """Let a call fail, or skip where that cannot be played."""
    if not world.fault(call, nth, kind):
        pytest.skip(f"this double cannot play {kind} of {call}")
