"""Mirrors the state of a job while it runs, so that losing its machine loses minutes."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from quantgrid import links
from quantgrid.errors import QuantgridError
from quantgrid.mirror import Mirror

EVERY_S = 60.0
"""Between two looks for a newer checkpoint; what a lost machine costs at most, our choice."""


class Mirrored(NamedTuple):
    """A state and where it is mirrored; `fence` raises when this process lost its hold."""

    mirror: Mirror
    state: Path
    fence: Callable[[], None]

    def save(self) -> str:
        """Mirror what is there; why that failed, empty when it did not.

        A mirror is for another day: nobody's work stops because it could not be made.
        """
        try:
            self.mirror.save(self.state, self.fence)
        except (QuantgridError, OSError) as error:
            return str(error)
        return ""


@contextmanager
def kept_up(states: Sequence[Mirrored], every_s: float) -> Iterator[None]:
    """Mirror each newer checkpoint that a script tells by `QG_LINK`, until the block ends.

    What is not told may be half written; it is mirrored when its script has ended.
    """
    if not states:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_keep_up, args=(states, every_s, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _keep_up(states: Sequence[Mirrored], every_s: float, ended: threading.Event) -> None:
    done: dict[Path, object] = {}
    while not ended.wait(every_s):
        for each in states:
            told = links.find_told(each.state)
            if told.get("checkpoint") and told != done.get(each.state) and not each.save():
                done[each.state] = told
