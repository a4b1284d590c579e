"""A controller of pods on the double of RunPod: real time, real HTTP, real processes."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from typing import Any

from quantgrid.rental.lease import Lease, Phase, Terms
from quantgrid.rental.port import Candidate, Limits, Name, Order, Price
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.runpod import RunPod
from quantgrid.rental.spend import Caps
from quantgrid.store import open_store
from runpod_rig import GPU, IMAGE, PLACE, Rig

MACHINE = Path(__file__).parent / "runpod_machine.py"
PRICE = Price(700_000, "test", "2026-11-30")
CANDIDATES = (Candidate(GPU, 1, PLACE, PRICE), Candidate(GPU, 1, "US-KS-2", PRICE))
LIMITS = Limits(cap_s=3600.0, grace_s=1.0, boot_s=20.0, create_s=2.0, visible_s=1.0)
TERMS = Terms(
    CANDIDATES,
    LIMITS,
    run_s=600.0,
    wait_s=0.1,
    beat_s=0.5,
    stall_s=60.0,
    look_s=0.5,
    again_s=0.1,
    alarm_s=0.5,
    max_starts=1000,
)
WITHIN_S = 180.0


class Controller:
    """Rounds over the adapter; several may share a register."""

    def __init__(self, rig: Rig, folder: Path, by: str = "one", platform: RunPod | None = None):
        self.rig, self.folder, self.told = rig, folder, list[str]()
        self.platform = platform or rig.adapter(limits=LIMITS)
        self.register = Register(open_store(str(folder), folder))
        self.pool = ThreadPoolExecutor(8)
        self.dead: set[str] = set()
        ways = Ways(
            now=self.register.store.now,
            start=self.start,
            fresh=lambda: token_hex(6),
            verify=bool,
            tell=self.told.append,
            is_dead=self.dead.__contains__,
        )
        self.rounds = Rounds(self.platform, self.register, Caps(), by, ways)
        self.words: tuple[str, ...] = ()
        self.work_s = 0.0
        self.extra: dict[str, Any] = {}

    def start(self, call: Callable[[], None]) -> None:
        """Make a call beside the rounds."""
        self.pool.submit(call)

    def want(self, subject: str, terms: Terms = TERMS) -> None:
        """Want a pod for a subject."""
        cell = f"cell-{subject[:4]}"
        volume = self.rig.volume
        self.rounds.want(Wanted(subject, cell, "grid", "lab", volume, terms, self.order))

    def order(self, lease: Lease, name: Name) -> Order:
        """A machine that beats and works for as long as asked."""
        work = (f"{TERMS.beat_s}", f"{self.work_s}", f"{lease.deadline_s}", *self.words)
        words = (sys.executable, str(MACHINE), str(self.folder), name.nonce, *work)
        environment = (("QG_RUNPOD_URL", f"{self.rig.double.url}/v2"),)
        order = self.rig.order(*words, name=name, candidate=lease.candidate)
        order = order._replace(environment=environment, image=IMAGE, deadline_s=lease.deadline_s)
        return order._replace(**self.extra)

    def lease(self, subject: str) -> Lease:
        """The newest state of a lease."""
        newest = self.register.newest(subject)
        return newest.lease if newest else Lease(subject, "", "", "", "")

    def until(self, subject: str, *phases: Phase) -> Lease:
        """Rounds until a lease is in one of some phases."""
        return self.until_so(lambda: self.lease(subject).phase in phases, subject)

    def until_so(self, is_so: Callable[[], bool], subject: str) -> Lease:
        """Rounds until something is so."""
        end_s = time.monotonic() + WITHIN_S
        while not is_so():
            assert time.monotonic() < end_s, (self.lease(subject), self.told)
            self.rounds.go()
            time.sleep(0.1)
        return self.lease(subject)

    def spend(self, seconds: float) -> None:
        """Rounds for a while."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.rounds.go()
            time.sleep(0.1)

    def end(self, subject: str) -> Lease:
        """End what is rented for a subject, and confirm it."""
        self.rounds.cancel(subject)
        return self.until(subject, Phase.ERROR, Phase.SUCCESS)

    def close(self) -> None:
        """Let calls that are on their way end."""
        self.pool.shutdown()
