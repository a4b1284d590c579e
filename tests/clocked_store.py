"""A folder store whose clock a test holds, and holders that start in it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from quantgrid.hold import Hold, IsDead, Seen, Terms, new_holder, nobody_knows
from quantgrid.store.folder import FolderStore

TTL_S = 60.0
SLOT_S = TTL_S / 6
FP = "f" * 64


class ClockedStore(FolderStore):
    """Its time goes on when it is told to."""

    __slots__ = ("moment",)

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.moment = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        """Let time go on."""
        self.moment += timedelta(seconds=seconds)


def terms(place: str = "/clone", is_dead: IsDead = nobody_knows) -> Terms:
    """A new starter."""
    holder = new_holder(place, "copy", "attempt")
    return Terms("n0-t1k-s0/rtn", holder, TTL_S, is_dead)


def held(got: Hold | Seen) -> Hold:
    """The hold that somebody must have got."""
    assert isinstance(got, Hold)
    return got


def seen(got: Hold | Seen) -> Seen:
    """The other holder that somebody must have met."""
    assert isinstance(got, Seen)
    return got
