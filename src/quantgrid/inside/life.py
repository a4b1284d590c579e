"""The life of a rented machine, from the start of its first process to the end of the machine.

`docs/formats/rental.md` ("What a machine does") is the order of the steps; each of them may be the
last one, and the machine ends after it all the same.
"""

import os
import signal
import threading
from pathlib import Path

from quantgrid import hearing
from quantgrid.clock import Clock
from quantgrid.errors import DataFault, DeviceFault, PlatformFault, QuantgridError, Refusal
from quantgrid.inside import devices, leaving
from quantgrid.inside.duty import Duty
from quantgrid.inside.heart import Heart
from quantgrid.inside.patience import Patience, tell
from quantgrid.inside.signs import Left, Signs
from quantgrid.inside.silence import Silence
from quantgrid.inside.times import Times
from quantgrid.rental.briefing import Briefing
from quantgrid.rental.lease import End, Exit
from quantgrid.store import Store, open_store

_SILENCE_S = 900.0
"""After so long without its controller a machine tells a person; a closed laptop is one, too."""
_LOST = Left(End.LEASE_LOST, 75, "the lease has another machine, or wants none")


class Life:
    """One machine, seen from inside.

    Args:
        told: What it was told.
        machine: Its id, as the platform says.
        clock: Of this machine; its wall clock may be wrong.
    """

    def __init__(self, told: Briefing, machine: str, clock: Clock) -> None:
        self.told, self.machine, self.clock = told, machine, clock
        self.work = Path(told.work).absolute()
        self.asked, self.over = threading.Event(), threading.Event()
        self.patience = Patience(clock, told.clock_factor, self.asked)
        self.store: Store = open_store(told.store, self.work)
        self.signs = Signs(self.store, told.subject, told.nonce, machine)

    def live(self) -> int:
        """Work, and end the machine; the exit code where returning ends it."""
        hearing.hear((signal.SIGTERM, signal.SIGINT), lambda _: self.asked.set())
        code = 0
        try:
            code = self._live()
        except QuantgridError as error:
            tell(str(error))
            code = error.exit_code
        finally:
            self.over.set()
            leaving.end_machine(self.told.ends_by, self.machine, self.told.clock_factor, self.asked)
        return code

    def _live(self) -> int:
        first_s = self.clock.monotonic_s() + self.told.real(self.told.stall_s)
        insist = self.patience.insist
        insist(self.signs.start, first_s)
        if insist(self.signs.has_ended, first_s) or not insist(self.signs.claim, first_s):
            tell("another machine works for this lease, or this one has ended: nothing to do")
            return 0
        times = Times.of(self.told, insist(self.store.now, first_s).timestamp(), self.clock)
        if not insist(self.signs.is_wanted, first_s):
            return self._leave(_LOST, None, times)
        resort = leaving.LastResort(self.clock, times.last_s, self.over)
        resort.watch(self.told.ends_by, self.machine, self.told.clock_factor, self.asked)
        return self._work(times)

    def _work(self, times: Times) -> int:
        duty = Duty(self, times)
        heart = Heart(
            self.signs, self.told.real(self.told.beat_s), self.clock, lambda: duty.progress
        )
        silence = Silence(
            self.store, self.told.real(_SILENCE_S), lambda: self.signs.lease, lambda: duty.code
        )
        heart.listen = silence.listen
        heart.start()
        try:
            left = self._left(duty, heart)
        finally:
            heart.stop(times.reserve_s)
        return self._leave(left, duty, times)

    def _left(self, duty: Duty, heart: Heart) -> Left:
        try:
            facts = devices.facts(self.told.gpus)
            self.patience.insist(lambda: self.signs.device(facts), duty.ends_s)
            return duty.work(heart)
        except DeviceFault as fault:
            return Left(End.INTERRUPTED, fault.exit_code, str(fault))
        except (DataFault, Refusal) as error:
            return Left(End.FAILED, error.exit_code, str(error))
        except PlatformFault as fault:  # silence of the store: without a record it was interrupted
            return Left("", fault.exit_code, str(fault))

    def _leave(self, left: Left, duty: Duty | None, times: Times) -> int:
        """The exit record, as long as there is time for it."""
        if left.sentence:
            tell(left.sentence)
        if left.reason:
            progress, records = (duty.progress, duty.records) if duty else (0, ())
            record = Exit(
                self.told.nonce,
                self.machine,
                End(left.reason),
                left.code,
                progress,
                tuple(dict.fromkeys(records)),
            )
            self.signs.exit(record) if self.asked.is_set() else self.patience.insist(
                lambda: self.signs.exit(record), times.deadline_s
            )
        return left.code


def identify(told: Briefing) -> str:
    """The id of this machine, as its platform says.

    Raises:
        Refusal: when it says none.
    """
    machine = os.environ.get(told.id_variable, "")
    if not machine:
        raise Refusal(
            f"a machine of {told.platform} does not know its own id, and could not end itself",
            expected=f"the variable {told.id_variable}",
            do="Correct `id_variable` in the platform's file.",
        )
    return machine
