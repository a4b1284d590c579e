"""Holds for as long as a job runs: taken or waited for, kept by beats, let go at the end."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from quantgrid.clock import Clock
from quantgrid.errors import HoldRefusal, QuantgridError
from quantgrid.hold import Chain, Hold, Seen, Terms
from quantgrid.store import Store

_FIRST_PAUSE_S = 0.2
_LAST_PAUSE_S = 5.0

IsDone = Callable[[], bool]
"""Whether the record of a fingerprint is in the archive by now."""


class Starter(NamedTuple):
    """A process that wants to compute.

    Args:
        store: Where holds are.
        clock: Measures patience; who is silent is told by the store's clock alone.
        terms: What it brings along.
        patience_s: How long it waits for another holder that lives; zero leaves at once.
        on_lost: Called in another thread when a hold was lost: what computes may stop.
    """

    store: Store
    clock: Clock
    terms: Terms
    patience_s: float
    on_lost: Callable[[], None]

    @contextmanager
    def holding(self, wanted: Mapping[str, IsDone]) -> Iterator[Mapping[str, Hold]]:
        """Hold the fingerprints whose records are still wanted.

        Args:
            wanted: Fingerprint to the question whether its record is there by now.

        Yields:
            The holds; a fingerprint whose record came meanwhile has none.

        Raises:
            HoldRefusal: when somebody else holds one for longer than patience lasts, or took one
                over while the block ran; the latter in the place of what the block raised.
        """
        heart = _Heart(self.on_lost)
        try:
            for fingerprint, is_done in wanted.items():
                hold = self._obtain(fingerprint, is_done)
                if hold:
                    heart.keep(fingerprint, hold)
            try:
                yield heart.holds
            except (Exception, SystemExit) as error:
                if heart.lost:
                    raise heart.lost from error
                raise
        finally:
            heart.stop()
            for fingerprint, hold in heart.holds.items():
                hold.release(is_done=_knows(wanted[fingerprint]))

    def _obtain(self, fingerprint: str, is_done: IsDone) -> Hold | None:
        """A hold, or None when another one's record came first."""
        end_s, pause_s, seen = self.clock.monotonic_s() + self.patience_s, _FIRST_PAUSE_S, None
        while True:
            got = Chain(self.store, fingerprint).take(self.terms)
            if is_done():  # asked after the claim: whoever held before may have published
                if isinstance(got, Hold):
                    got.release(is_done=True)
                return None
            if isinstance(got, Hold):
                return got
            if self.clock.monotonic_s() >= end_s:
                raise got.refusal()
            if seen is None:
                _tell(got)
            seen = got
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, got.claim.slot_s, _LAST_PAUSE_S)


def _tell(seen: Seen) -> None:
    text = f"waiting: {seen.claim.cell} is computed elsewhere by {seen.words()}"
    print(text, file=sys.stderr, flush=True)


def _knows(is_done: IsDone) -> bool:
    """Whether a record is known to be there; a store that does not answer knows nothing."""
    try:
        return is_done()
    except QuantgridError:
        return False


class _Heart:
    """Beats for all holds of a job in a thread of its own, also while files are deposited."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self.holds: dict[str, Hold] = {}
        self.lost: HoldRefusal | None = None
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, fingerprint: str, hold: Hold) -> None:
        """Beat for one more hold from now on."""
        self.holds[fingerprint] = hold
        if self._thread is None:
            period_s = hold.claim.slot_s
            self._thread = threading.Thread(target=self._beat, args=(period_s,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Beat no more; returns when a beat that is under way has ended."""
        self._stopped.set()
        if self._thread:
            self._thread.join()

    def _beat(self, period_s: float) -> None:
        while not self._stopped.wait(period_s):
            for hold in list(self.holds.values()):
                try:
                    hold.beat()
                except HoldRefusal as refusal:
                    self.lost = refusal
                    self._on_lost()
                    return
                except QuantgridError:
                    continue  # the store does not answer; the next beat may get through
