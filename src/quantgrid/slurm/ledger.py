"""The ledger of submissions: one file a subject, written before and after each submission."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout
from quantgrid.slurm.batch import GIVEN_UP

_SCHEMA, _VERSION = "quantgrid/submissions", 1
_KEPT = 100
_ENDS = ".end"


class Attempt(NamedTuple):
    """One submission.

    Args:
        token: Its name, random.
        submitted: Unix time of the intent.
        job: SLURM's id; empty while nobody knows whether it was taken.
        end: How it ended; empty while it is open.
    """

    token: str
    submitted: float
    job: str = ""
    end: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it may still do something."""
        return not self.end


class Entry(NamedTuple):
    """All submissions of a subject, oldest first; `number` counts those that were dropped too."""

    subject: str
    attempts: tuple[Attempt, ...] = ()
    number: int = 0

    @property
    def newest(self) -> Attempt | None:
        """The latest submission."""
        return self.attempts[-1] if self.attempts else None

    @property
    def open(self) -> Attempt | None:
        """The submission that may still do something."""
        return self.newest if self.newest and self.newest.is_open else None

    def intending(self, now: float) -> "Entry":
        """With the intent of a further submission."""
        attempt = Attempt(os.urandom(8).hex(), now)
        return self._replace(attempts=(*self.attempts, attempt)[-_KEPT:], number=self.number + 1)

    def with_newest(self, *, job: str | None = None, end: str | None = None) -> "Entry":
        """With the id or the end of the latest submission."""
        newest = self.attempts[-1]
        changed = newest._replace(
            job=newest.job if job is None else job, end=newest.end if end is None else end
        )
        return self._replace(attempts=(*self.attempts[:-1], changed))

    def num_in_a_row(self, ends: Iterable[str]) -> int:
        """How many of the latest submissions ended in one of these ways; an open one is no end."""
        wanted = frozenset(ends)
        count = 0
        for attempt in reversed([each for each in self.attempts if not each.is_open]):
            if attempt.end not in wanted:
                break
            count += 1
        return count


class Ledger(NamedTuple):
    """The submissions of a working copy."""

    root: Path

    def read(self, subject: str) -> Entry:
        """The entry of a subject; empty when there is none or it cannot be read."""
        try:
            return _parse(json.loads(self._path(subject).read_bytes()))
        except (OSError, ValueError, LookupError, TypeError):
            return Entry(subject)

    def write(self, entry: Entry) -> None:
        """Publish an entry."""
        facts = {"schema": _SCHEMA, "version": _VERSION, **entry._asdict()}
        facts["attempts"] = [attempt._asdict() for attempt in entry.attempts]
        atomic.publish_json(self._path(entry.subject), facts)

    def entries(self) -> list[Entry]:
        """Every entry that can be read."""
        found = []
        for path in sorted((self.root / layout.SLURM).glob("*.json")):
            try:
                found.append(_parse(json.loads(path.read_bytes())))
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return found

    # -- what the submissions themselves write ----------------------------------------------------

    def ended(self) -> frozenset[str]:
        """Tokens of the submissions that left an exit code, by one look at the folder."""
        try:
            names = os.listdir(self.root / layout.SLURM)  # noqa: PTH208 - names are enough
        except FileNotFoundError:
            return frozenset()
        return frozenset(
            name.removesuffix(_ENDS).rpartition(".")[2] for name in names if name.endswith(_ENDS)
        )

    def find_code(self, subject: str, token: str) -> int | None:
        """The exit code that a submission left; None when there is none."""
        try:
            return int(self._part(subject, f"{token}{_ENDS}").read_text())
        except (OSError, ValueError):
            return None

    def give_up(self, subject: str, token: str) -> bool:
        """Keep a submission from ever beginning; whether that is certain now."""
        path = self._part(subject, f"{token}.start")
        return atomic.create_once(path, GIVEN_UP.encode()) or path.read_text() == GIVEN_UP

    def forget(self, subject: str) -> None:
        """Remove what lies about of a subject whose output is there; logs that say something stay.

        The ledger goes last: until then whoever comes finds every file by it.
        """
        for attempt in self.read(subject).attempts:
            log = self.root / layout.slurm_log(subject, attempt.token)
            if log.exists() and not log.stat().st_size:
                log.unlink()
            for part in (f"{attempt.token}.start", f"{attempt.token}{_ENDS}"):
                self._part(subject, part).unlink(missing_ok=True)
        self._path(subject).unlink(missing_ok=True)

    def _path(self, subject: str) -> Path:
        return self._part(subject, "json")

    def _part(self, subject: str, part: str) -> Path:
        return self.root / layout.slurm_file(subject, part)


def _parse(facts: Any) -> Entry:
    if facts["schema"] != _SCHEMA or facts["version"] > _VERSION:
        raise ValueError(facts["schema"])
    attempts = tuple(Attempt(**each) for each in facts["attempts"])
    return Entry(facts["subject"], attempts, facts["number"])
