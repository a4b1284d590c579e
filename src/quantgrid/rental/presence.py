"""Whether the controller of rented machines lives: it says so, and its machines look.

A laptop that is closed or out of power tells nobody.  So the controller leaves a sign in the
register about once a minute, and takes it away when it leaves on purpose; a sign that grows old is
that of a controller which died or sleeps.
"""

import time
from collections.abc import Callable, Iterator

from quantgrid import layout
from quantgrid.store import Entry, Store

_CONTROLLERS = "controllers"


class Presence:
    """The signs of one controller.

    Args:
        store: That of the register.
        by: Name of the controller, whose first word is that of its working copy.
        every_s: Between two signs.
        monotonic_s: Measures that.
    """

    def __init__(
        self,
        store: Store,
        by: str,
        every_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._by, self._every_s, self._monotonic_s = store, by, every_s, monotonic_s
        self._next_s, self._count = 0.0, 0

    def beat(self) -> None:
        """Say that it lives, unless it did so just now; what was said before is of no use.

        Raises:
            PlatformFault: when the store does not answer.
        """
        now_s = self._monotonic_s()
        if self._count and now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        self._count += 1
        old = [entry.key for entry in _signs(self._store, self._by)]
        self._store.put_once(layout.rental_key(_CONTROLLERS, self._by, f"{self._count:06d}"), b"")
        for key in old:
            self._store.delete(key)

    def leave(self) -> None:
        """Say nothing any more, and miss nobody: a person ended it or it is done.

        Raises:
            PlatformFault: when the store does not answer.
        """
        forget(self._store, self._by)


def forget(store: Store, by: str) -> None:
    """No machine looks for a controller of this working copy any more.

    Raises:
        PlatformFault: when the store does not answer.
    """
    for entry in list(_signs(store, by)):
        store.delete(entry.key)


def find_silence_s(store: Store, by: str) -> float | None:
    """Seconds since a controller of the same working copy was heard; None when none has to be.

    Raises:
        PlatformFault: when the store does not answer.
    """
    heard = [entry.modified for entry in _signs(store, by)]
    return (store.now() - max(heard)).total_seconds() if heard else None


def _signs(store: Store, by: str) -> Iterator[Entry]:
    """Of any controller of a working copy: one that took over is as good as the first."""
    for entry in store.entries(layout.rental_key(_CONTROLLERS)):
        if layout.rental_words(entry.key)[0] == by.partition(".")[0]:
            yield entry
