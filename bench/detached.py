"""What it costs to watch rented machines: calls an hour, time to re-attach, CPU of a controller.

    python bench/detached.py [--json] [--leases 100]

The plain platform (rehearsal/plain) rents real, sleeping processes; the machines' signs of life are
written by this program, so that only the controller's own work is measured.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from quantgrid.rental.lease import End, Exit, Lease, Phase, Terms
from quantgrid.rental.port import Candidate, Limits, Name, Order, Price
from quantgrid.rental.register import BEAT, CLAIM, EXIT, Register, exit_bytes, sign_key
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Caps
from quantgrid.store.folder import FolderStore
from rehearsal.plain.double import running
from rehearsal.plain.platform import PlainPlatform

PERIOD_S = 30.0
"""Between two rounds of a real controller."""
_PAUSE_S = 0.5
"""Between two rounds here: machines come and go meanwhile, as in the pauses of a real one."""
LIMITS = {"cap_s": 86_400.0, "grace_s": 1.0, "boot_s": 600.0, "create_s": 60.0, "visible_s": 0.1}
WAYS = (Candidate("cpu", 1, "here", Price(360_000, "bench", "2026-11-30")),)
TERMS = Terms(WAYS, Limits(**LIMITS), run_s=3600.0, look_s=0.1, again_s=1.0)


class Counted:
    """Something whose calls are counted by their names."""

    def __init__(self, inner: Any, counts: "Counter[str]") -> None:
        self._inner, self._counts = inner, counts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        self._counts[name] += 1
        return found


class Bench:
    """Leases, a controller, and what it asked for."""

    def __init__(self, address: str, folder: Path, leases: int) -> None:
        self.address, self.store = address, FolderStore(folder / "store")
        self.subjects = [os.urandom(32).hex() for _ in range(leases)]
        self.calls: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.rounds = self.controller()

    def controller(self) -> Rounds:
        """A controller that wants all of it."""
        platform = PlainPlatform(self.address, "token-main", limits=LIMITS, timeout_s=60.0)
        ways = Ways(
            now=self.store.now,
            start=lambda call: threading.Thread(target=call, daemon=True).start(),
            fresh=lambda: os.urandom(6).hex(),
            verify=lambda _: True,
            tell=print,
            is_dead=lambda _: True,
        )
        register = Register(Counted(self.store, self.requests))
        rounds = Rounds(Counted(platform, self.calls), register, Caps(), os.urandom(4).hex(), ways)
        for subject in self.subjects:
            rounds.want(Wanted(subject, "c", "grid", "lab/main", "", TERMS, _order))
        return rounds

    def until(self, *phases: Phase) -> int:
        """Rounds until every lease is in one of some phases; how many that took."""
        count = 0
        while not self._are_in(phases):
            self.rounds.go()
            count += 1
            self.sign()
            time.sleep(_PAUSE_S)
        return count

    def _are_in(self, phases: tuple[Phase, ...]) -> bool:
        last = self.rounds.last
        return last.keys() >= set(self.subjects) and {e.phase for e in last.values()} <= set(phases)

    def sign(self, *, is_over: bool = False) -> None:
        """What the machines would say now."""
        for subject, lease in self.rounds.last.items():
            if lease.phase is Phase.BOOTING and lease.machine:
                self.store.put_once(sign_key(lease.nonce, CLAIM), lease.machine.encode())
                self.store.put_once(sign_key(lease.nonce, BEAT, "00000000", "0"), b"")
            if is_over:
                record = Exit(lease.nonce, lease.machine, End.DONE, 0, 0, (subject,))
                self.store.put_once(sign_key(lease.nonce, EXIT), exit_bytes(record))


def _order(lease: Lease, name: Name) -> Order:
    words, end_s = ("sleep", "3600"), lease.deadline_s
    return Order(name, lease.candidate, "image", words, (), (), "", "", end_s)


def cost(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of this process's CPU, that something takes."""
    begin_s, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    act()
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return time.monotonic() - begin_s, cpu_s


def measure(leases: int) -> dict[str, float]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "plain") as double:
        bench = Bench(double.address, Path(folder), leases)
        _, rent_cpu_s = cost(lambda: bench.until(Phase.RUNNING))
        bench.calls.clear(), bench.requests.clear()
        _, round_cpu_s = cost(lambda: [bench.rounds.go() for _ in range(5)])
        calls, requests = sum(bench.calls.values()) / 5, sum(bench.requests.values()) / 5
        bench.rounds = bench.controller()
        attach_s, _ = cost(lambda: bench.until(Phase.RUNNING))
        bench.sign(is_over=True)
        _, end_cpu_s = cost(lambda: bench.until(Phase.SUCCESS))
        assert double.billing() == []
    return {
        "leases": leases,
        "platform calls an hour": calls * 3600 / PERIOD_S,
        "store requests an hour": requests * 3600 / PERIOD_S,
        "CPU ms a round": round_cpu_s / 5 * 1000,
        "s to re-attach": attach_s,
        "CPU ms a cell, rent to confirmed end": (rent_cpu_s + end_cpu_s) / leases * 1000,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--leases", type=int, default=100, help="machines at the same time")
    options = parser.parse_args()
    figures = measure(options.leases)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:<40} {value:,.1f}")


if __name__ == "__main__":
    main()
