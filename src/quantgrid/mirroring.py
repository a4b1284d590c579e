"""Mirrors the state of a job while it runs, so that losing its machine loses minutes."""

import sys
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
    """A state and where it is mirrored.

    Args:
        mirror: The latter.
        state: The former.
        fence: Raises when this process lost its hold.
        is_on: Whether this machine mirrors; one that does not goes on from what others mirrored.
    """

    mirror: Mirror
    state: Path
    fence: Callable[[], None]
    is_on: bool = True

    def go_on(self) -> None:
        """Take a mirrored checkpoint where this machine has none, or one that is not as far."""
        if self.is_on or not links.peek(self.state):
            key = self.mirror.restore(self.state)
            if key:
                print(f"going on from {key} of {self.mirror.store.address}", file=sys.stderr)

    def save_last(self) -> None:
        """Mirror what a link left; its script has ended."""
        trouble = self.save() if self.is_on else ""
        if trouble:
            print(f"the state of {self.mirror.owner} is not mirrored: {trouble}", file=sys.stderr)

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
    mirrored = [each for each in states if each.is_on]
    if not mirrored:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_keep_up, args=(mirrored, every_s, ended), daemon=True)
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
