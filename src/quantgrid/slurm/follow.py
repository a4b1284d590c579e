"""Follows the submissions of a working copy: submits, finds again, judges, hands over."""

import json
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.clock import Clock
from quantgrid.errors import ConfigRefusal, FailureClass, Refusal, Unanswered
from quantgrid.slurm import batch
from quantgrid.slurm.batch import Order
from quantgrid.slurm.judge import (
    FINAL_ENDS,
    HANDED_OVER,
    SILENT_ENDS,
    Evidence,
    Judgement,
    Patience,
    Verdict,
    judge,
)
from quantgrid.slurm.ledger import Attempt, Entry, Ledger
from quantgrid.slurm.queue import Queue, Seen

Tell = Callable[[str], object]
_HELD_S = 60.0
"""Before a subject that somebody else computes is submitted again."""


class Manners(NamedTuple):
    """How submissions are followed.

    Args:
        ask_s: Seconds between two questions to SLURM.
        grace_s: Seconds before a time limit at which SLURM sends SIGTERM; 0 for not at all.
        patience: How long to wait for what should come.
    """

    ask_s: float = 10.0
    grace_s: float = 0.0
    patience: Patience = Patience()


class Follower:
    """The submissions of a working copy, followed by one thread; `begin` may be called by another.

    Args:
        root: The working copy.
        queue: Its jobs in SLURM.
        clock: Measures silence.
        manners: How they are followed.
        tell: Says a line to a person.
    """

    def __init__(
        self, root: Path, queue: Queue, clock: Clock, manners: Manners, tell: Tell
    ) -> None:
        self.ledger, self.queue = Ledger(root), queue
        self._root, self._clock, self._manners, self._tell = root, clock, manners, tell
        self._arrived: deque[tuple[Order, Entry]] = deque()
        self._orders: dict[str, Order] = {}
        self._entries: dict[str, Entry] = {}
        self._missing: set[str] = set()
        self._over: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._seen: Mapping[str, Seen] | None = None
        self._asked_s = float("-inf")
        self._silent_since: float | None = None

    def job_of(self, subject: str) -> str:
        """SLURM's id of the latest submission of a subject; empty when there is none."""
        newest = self._entries[subject].newest if subject in self._entries else None
        return newest.job if newest else ""

    # -- a subject begins -------------------------------------------------------------------------

    def begin(self, order: Order, *, is_retry: bool, was_missing: bool = False) -> Judgement | None:
        """Take a subject on: an open submission of it is followed, else one is to be made.

        Args:
            order: The job.
            is_retry: Whether Snakemake tries it again after a failure.
            was_missing: Whether the subject was not there when the plan was made.

        Returns:
            The failure, when a further submission would only meet it again.
        """
        entry = self.ledger.read(order.subject)
        newest = entry.newest
        if is_retry and newest and newest.end in FINAL_ENDS:
            return Judgement(Verdict.FAILED, newest.end, f"{newest.end}: it would fail again")
        (self._missing.add if was_missing else self._missing.discard)(order.subject)
        self._arrived.append((order, entry))
        return None

    def _take(self, order: Order, entry: Entry) -> None:
        self._orders[order.subject], self._entries[order.subject] = order, entry
        if entry.open:
            self._adopt(entry, entry.open)

    def _adopt(self, entry: Entry, attempt: Attempt) -> None:
        """Follow what an earlier controller submitted; what ended without a use is closed."""
        code = self.ledger.find_code(entry.subject, attempt.token)
        if code == 0 and entry.subject in self._missing and self._is_made(entry.subject):
            return  # it ended while this controller planned; the next look tells
        if code is not None and code != 75:
            self._write(entry.with_newest(end="done" if code == 0 else f"exit code {code}"))
        else:
            known = f"SLURM job {attempt.job}" if attempt.job else "a submission without an id"
            self._say(entry.subject, f"{known} is followed again")

    def _is_made(self, subject: str) -> bool:
        return (self._root / subject).exists()

    # -- a round ----------------------------------------------------------------------------------

    def look_around(self, wanted: Container[str]) -> list[tuple[str, Judgement]]:
        """Look once at every wanted subject; those that came to an end are followed no more."""
        while self._arrived:
            self._take(*self._arrived.popleft())
        ended = self.ledger.ended()
        open_ = {s: e.open for s, e in self._entries.items() if e.open}
        codes = {
            subject: self.ledger.find_code(subject, attempt.token)
            for subject, attempt in open_.items()
            if attempt.token in ended
        }
        self._ask(open_, codes)
        found = []
        for subject in [each for each in self._orders if each in wanted]:
            judgement = self._look_at(subject, codes.get(subject))
            if judgement.verdict in {Verdict.DONE, Verdict.FAILED}:
                self._drop(subject)
                found.append((subject, judgement))
        return found

    def _look_at(self, subject: str, code: int | None) -> Judgement:
        entry = self._entries[subject]
        if entry.open is None:
            return self._submit(entry)
        # one that left a code has begun; when all have, SLURM is not asked and could not tell
        if code is None and not entry.open.job and not self._is_resolved(entry, entry.open):
            return Judgement(Verdict.WAIT)
        entry = self._entries[subject]
        if entry.open is None:
            return self._submit(entry)
        judgement = judge(self._evidence(entry, entry.open, code), self._manners.patience)
        if judgement.verdict is not Verdict.WAIT:
            self._close(entry, judgement)
        return judgement

    def _evidence(self, entry: Entry, attempt: Attempt, code: int | None) -> Evidence:
        seen = (self._seen or {}).get(attempt.token)
        is_over = self._seen is not None and not (seen and seen.is_live)
        now_s = self._clock.monotonic_s()
        over_s = now_s - self._over.setdefault(attempt.token, now_s) if is_over else 0.0
        if not is_over:
            self._over.pop(attempt.token, None)
        return Evidence(
            code=code,
            seen=seen,
            is_answered=self._seen is not None,
            over_s=over_s,
            is_held=code == Refusal.exit_code and self._is_held(entry.subject),
            num_silent=entry.num_in_a_row(SILENT_ENDS),
        )

    def _is_held(self, subject: str) -> bool:
        """Whether the runner left because somebody else computes the subject."""
        path = (self._root / layout.progress_file(subject)).with_suffix(".end")
        with suppress(OSError, ValueError, AttributeError):
            return bool(json.loads(path.read_bytes()).get("class") == FailureClass.HELD)
        return False

    def _close(self, entry: Entry, judgement: Judgement) -> None:
        attempt = entry.attempts[-1]
        self._over.pop(attempt.token, None)
        if judgement.verdict is Verdict.AGAIN:
            if judgement.end != HANDED_OVER:
                self.ledger.give_up(entry.subject, attempt.token)
            if judgement.end == "held":
                self._not_before[entry.subject] = self._clock.monotonic_s() + _HELD_S
            self._say(entry.subject, f"{judgement.words}; the next SLURM job goes on")
        if judgement.verdict is Verdict.FAILED and not judgement.is_own_word:
            self._note(self._orders[entry.subject], f"failed: {judgement.words}.")
        if judgement.verdict is Verdict.DONE:
            self.ledger.forget(entry.subject)
        else:
            self._write(entry.with_newest(end=judgement.end))

    def _note(self, order: Order, words: str) -> None:
        """Add to a job's log what it cannot say itself: a person and the display look there."""
        with suppress(OSError, IndexError), (self._root / order.logs[0]).open("a") as log:
            log.write(f"{words}\n")

    def _say(self, subject: str, words: str) -> None:
        self._tell(f"{layout.subject_name(subject)}: {words}")

    def _drop(self, subject: str) -> None:
        for known in (self._orders, self._not_before):
            known.pop(subject, None)

    # -- submission -------------------------------------------------------------------------------

    def _submit(self, entry: Entry) -> Judgement:
        """Submit a subject once: intent, call, id; without an answer the next round looks."""
        if self._clock.monotonic_s() < self._not_before.get(entry.subject, 0.0):
            return Judgement(Verdict.WAIT)
        order = self._orders[entry.subject]
        self._prepare(order)
        entry = entry.intending(self._clock.now().timestamp())
        self._write(entry)
        token = entry.attempts[-1].token
        words = batch.submission(order, token, self.queue.name, grace_s=self._manners.grace_s)
        script = batch.script(order, token, self._root, entry.number)
        try:
            job = self.queue.submit(words, script)
        except ConfigRefusal as error:
            self._write(entry.with_newest(end="refused"))
            self._note(order, str(error))
            return Judgement(Verdict.FAILED, "refused", str(error))
        except Unanswered as fault:
            self._seen = None  # what was seen before says nothing of it
            self._tell(str(fault))
            return Judgement(Verdict.WAIT)
        self._write(entry.with_newest(job=job))
        if self._seen is not None:  # a queue seen before it was there
            self._seen = {**self._seen, token: Seen(job, "PENDING")}
        self._say(entry.subject, f"SLURM job {job}")
        return Judgement(Verdict.WAIT)

    def _prepare(self, order: Order) -> None:
        folders = (order.subject, *order.logs, layout.slurm_log(order.subject, ""))
        for path in folders:
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)

    def _is_resolved(self, entry: Entry, attempt: Attempt) -> bool:
        """Find out what became of a submission without an id; whether that is known now.

        Either SLURM has it, or it began, or it is kept from ever beginning and a new one is made.
        """
        if self._seen is None:
            return False
        seen = self._seen.get(attempt.token)
        if seen:
            self._write(entry.with_newest(job=seen.job))
        elif self.ledger.give_up(entry.subject, attempt.token):
            self._write(entry.with_newest(end="never submitted"))
        else:
            self._write(entry.with_newest(job="unknown"))
        return True

    def _write(self, entry: Entry) -> None:
        self._entries[entry.subject] = entry
        self.ledger.write(entry)

    # -- questions --------------------------------------------------------------------------------

    def _ask(self, open_: Mapping[str, Attempt], codes: Mapping[str, int | None]) -> None:
        """Ask SLURM once for all, when it is time or when a hand-over has to be understood."""
        unknown = [each for subject, each in open_.items() if codes.get(subject) not in {0}]
        is_urgent = any(code == 75 for code in codes.values())
        now_s = self._clock.monotonic_s()
        is_due = now_s >= self._asked_s + (1.0 if is_urgent else self._manners.ask_s)
        if not unknown or not (is_due or self._seen is None):
            return
        if self._seen is None and now_s < self._asked_s + 1.0:
            return
        self._asked_s = now_s
        try:
            seen = self.queue.look()
            self._silent_since = None
        except Unanswered as fault:
            self._say_silence(fault)
            return
        self._seen = {**self._recalled([a for a in unknown if a.token not in seen]), **seen}

    def _recalled(self, forgotten: Iterable[Attempt]) -> Mapping[str, Seen]:
        """What accounting has of those that slurmctld does not list; nothing while it is silent."""
        asked = [attempt for attempt in forgotten if attempt.job]
        if not asked:
            return {}
        since = min(attempt.submitted for attempt in asked)
        with suppress(Unanswered):
            return self.queue.recall(since, {each.token: each.job for each in asked})
        return {}

    def _say_silence(self, fault: Unanswered) -> None:
        """Say once that SLURM is silent; what runs is not touched."""
        self._seen = None
        if self._silent_since is None:
            self._silent_since = self._clock.monotonic_s()
            self._tell(f"{fault}  Jobs go on; they are looked at when it answers again.")
