"""`quantgrid coordinate`: Snakemake in a rented machine, which the next coordinator follows."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from quantgrid import hearing
from quantgrid.errors import Checkpointed, QuantgridError
from quantgrid.inside.copies import ENDS_AT, MARK
from quantgrid.rental.coordinating import Coordinator, overrides_of
from quantgrid.rental.facts import Facts
from quantgrid.rental.succession import Shift, Succession

HELP = "run Snakemake in a rented machine, and rent the next coordinator before the cap"

_EVERY_S, _OFTEN_S, _LEAST_S = 60.0, 10.0, 0.2
"""Between two looks at the other coordinators, nominal; more often when the end is near."""
_LEAVES_S = 300.0
"""For so long the coordinator before this one is waited for, nominal."""
_ASKED_S = 20.0
"""What Snakemake has to leave its jobs alone when it is interrupted."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{HELP}; started by `quantgrid launch --on PLATFORM`"
    parser.add_argument("--platform", required=True, help="where the next one is rented")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="-- ...", help="Snakemake's arguments"
    )


def main(options: argparse.Namespace) -> int:
    """Run Snakemake; its code, or 75 when a newer coordinator goes on with the grid."""
    words = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    root = Path.cwd()
    coordinator = Coordinator.of(root, root, options.platform, overrides_of(words))
    succession = coordinator.succession(Shift.parse(os.environ[MARK]))
    asked = threading.Event()
    hearing.hear((signal.SIGTERM, signal.SIGINT), lambda _: asked.set())
    _take_up(succession, root, coordinator.facts, asked)
    child = subprocess.Popen([sys.executable, "-m", "snakemake", *words])
    try:
        return _Watch(child, succession, coordinator.facts, asked).watch()
    finally:
        _interrupt(child)


def _take_up(succession: Succession, root: Path, facts: Facts, asked: threading.Event) -> None:
    """Wait for the coordinator before this one, and bring here what it left; not for ever.

    A quarter of this machine's time is left for it at most: the next one has to be rented, too.
    """
    left_s = max(float(os.environ[ENDS_AT]) - time.time(), 0.0)
    until_s = time.monotonic() + min(max(facts.real_s(_LEAVES_S), 2 * _ASKED_S), left_s / 4)
    while time.monotonic() < until_s and not asked.is_set():
        if _has_taken_up(succession, root, is_patient=True):
            return
        asked.wait(max(facts.real_s(_OFTEN_S), _LEAST_S))
    _has_taken_up(succession, root, is_patient=False)


def _has_taken_up(succession: Succession, root: Path, *, is_patient: bool) -> bool:
    """Whether all is here that there is; one that still works is waited for by the patient."""
    try:
        if is_patient and succession.awaits():
            return False
        succession.take_up(root)
    except QuantgridError as error:
        print(error, file=sys.stderr, flush=True)
        return False
    return True


class _Watch:
    """Snakemake and the other coordinators, side by side.

    Args:
        child: Snakemake.
        succession: The other coordinators.
        facts: Of the platform.
        asked: Set when this machine was told to end.
    """

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        succession: Succession,
        facts: Facts,
        asked: threading.Event,
    ) -> None:
        self._child, self._succession, self._facts, self._asked = child, succession, facts, asked
        now_s = time.monotonic()
        self._ends_s = now_s + max(float(os.environ[ENDS_AT]) - time.time(), 0.0)
        self._late_s = self._ends_s - succession.lead_s(self._ends_s - now_s)

    def watch(self) -> int:
        """Until Snakemake ends, this machine has to, or a newer coordinator works."""
        while (code := self._child.poll()) is None and not self._asked.is_set():
            if self._look():
                return self._give_way()
            self._asked.wait(self._pause_s())
        if code is None:
            return Checkpointed.exit_code
        self._insist(self._succession.dismiss)
        return code

    def _look(self) -> bool:
        """Whether a newer coordinator works; what cannot be known now is asked again."""
        try:
            return self._succession.go(is_late=self._is_late())
        except QuantgridError as error:
            print(error, file=sys.stderr, flush=True)
            return False

    def _is_late(self) -> bool:
        return time.monotonic() >= self._late_s

    def _pause_s(self) -> float:
        """A child that ends is noticed within a second, whatever the pause between two looks."""
        nominal_s = _OFTEN_S if self._is_late() else _EVERY_S
        pause_s, began_s = max(self._facts.real_s(nominal_s), _LEAST_S), time.monotonic()
        while (left_s := began_s + pause_s - time.monotonic()) > 1.0:
            if self._child.poll() is not None or self._asked.wait(1.0):
                return 0.0
        return max(left_s, 0.0)

    def _give_way(self) -> int:
        """Snakemake leaves its jobs alone, and the platform ends this machine."""
        print("the next coordinator works: this one gives way", file=sys.stderr, flush=True)
        _interrupt(self._child)
        self._insist(lambda: self._succession.leave_behind(Path.cwd()))
        self._insist(self._succession.leave)
        self._asked.wait(max(self._ends_s - time.monotonic(), 0.0))  # the machine ends any moment
        return Checkpointed.exit_code

    def _insist(self, is_done: Callable[[], bool]) -> None:
        """Rounds until it is done, as long as there is time and nobody asks for the end."""
        while time.monotonic() < self._ends_s:
            try:
                if is_done():
                    return
            except QuantgridError as error:
                print(error, file=sys.stderr, flush=True)
            if self._asked.wait(max(self._facts.real_s(_OFTEN_S), _LEAST_S)):
                return


def _interrupt(child: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C for Snakemake, which leaves what is rented alone; it is killed when it stays."""
    if child.poll() is not None:
        return
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_ASKED_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
