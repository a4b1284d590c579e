"""What tasks say while they run, in the log files of their rules."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from quantgrid.rental.tasks import Task, TaskOrder, log_key
from quantgrid.store import Store

_LOOKS = 16
"""Keys that are asked for in a round: a hundred tasks have their turn every seventh round."""
_CHUNKS = 8
"""Pieces of one log that are read in a row."""


class Running(Protocol):
    """A task that is worked on."""

    @property
    def task(self) -> Task:
        """Which."""

    @property
    def order(self) -> TaskOrder:
        """What is done for it."""


class Tails:
    """Appends what is new to the log files of running tasks; the whole log replaces it at the end.

    Args:
        store: Where machines put it.
        root: The working copy.
    """

    def __init__(self, store: Store, root: Path) -> None:
        self._store, self._root = store, root
        self._counts: dict[tuple[str, Task], int] = {}
        self._turn = 0

    def follow(self, running: Iterable[tuple[str, Running]]) -> None:
        """Look at some of the tasks that are worked on.

        Raises:
            PlatformFault: when the store does not answer.
        """
        all_ = [each for each in running if each[1].order.log]
        for shift in range(min(_LOOKS, len(all_))):
            self._follow(*all_[(self._turn + shift) % len(all_)])
        self._turn += _LOOKS

    def _follow(self, nonce: str, running: Running) -> None:
        task = running.task
        for _ in range(_CHUNKS):
            count = self._counts.get((nonce, task), 0)
            data = self._store.find(log_key(nonce, task, count))
            if data is None:
                return
            path = self._root / running.order.log
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as log:
                log.write(data)
            self._counts[nonce, task] = count + 1
