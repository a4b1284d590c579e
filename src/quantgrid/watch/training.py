"""The watch in a training of ours: it hears every step, evaluates now and then, and acts.

It keeps to the side: nothing that it does changes a number of the training.
"""

import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from quantgrid import atomic, layout
from quantgrid.cell import Cell, say
from quantgrid.checkpoint.folder import State
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.clock import Clock, SystemClock
from quantgrid.errors import Alarm, Checkpointed, DeviceFault
from quantgrid.watch import replay
from quantgrid.watch.heart import STALL_S, Heart
from quantgrid.watch.observation import Expected, Finding, Point, Steps
from quantgrid.watch.replay import Replay
from quantgrid.watch.rules import STALL, TIMED, Gap, Spike
from quantgrid.watch.watch import Action, Watch, alarm_of

_REMEMBERED = 4096


class Evaluations(Protocol):
    """When a training is evaluated, and how."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step consumes."""

    @property
    def tokens_between(self) -> int:
        """Tokens between two evaluations."""

    def is_due(self, step: int) -> bool:
        """Whether it is evaluated after so many steps: a function of the steps alone."""

    def losses(self) -> Sequence[float]:
        """A loss for each fixed sequence; the training stays as it was."""


class Corpus(Protocol):
    """What is known of the corpus that a stage reads."""

    @property
    def manifest(self) -> str:
        """Digest of its manifest."""

    @property
    def unique_tokens(self) -> int:
        """Tokens that one pass trains on."""


def watched(
    cell: Cell, state: State, evaluations: Evaluations, corpus: Corpus, *, passes: int
) -> "tuple[Keeper, TrainingWatch]":
    """The keeper and the watch of a training stage.

    The keeper keeps a checkpoint that is two evaluations older than the newest, so that there is
    one from before the trouble.

    Args:
        cell: Whose stage it is.
        state: What checkpoints keep.
        evaluations: When and how it is evaluated.
        corpus: What it reads.
        passes: Declared passes over it.
    """
    latency_tokens = Gap.RUNNING * evaluations.tokens_between
    keeper = Keeper(cell, state, manifest=corpus.manifest, latency_tokens=latency_tokens)
    expected = Expected(passes, corpus.unique_tokens)
    return keeper, TrainingWatch(cell, keeper, evaluations, expected)


class TrainingWatch:
    """Watches one stage.

    Args:
        cell: Whose stage it is; its policy decides what a finding does.
        keeper: Keeps the state of the watch in its checkpoints.
        evaluations: When and how it is evaluated.
        expected: What is known of the training.
        clock: Times throughput.
    """

    def __init__(
        self,
        cell: Cell,
        keeper: Keeper,
        evaluations: Evaluations,
        expected: Expected,
        *,
        clock: Clock | None = None,
    ) -> None:
        asked = cell.watch
        self._cell, self._keeper, self._clock = cell, keeper, clock or SystemClock()
        expected = expected._replace(tokens_per_s=cell.probed_per_s)
        self._watch = Watch(expected, asked.get("policy"))
        self._expected, self._tokens_per_step = expected, evaluations.tokens_per_step
        self._evaluations = evaluations
        self._since: list[float] = []
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)
        self._replay = Replay.find(cell.state)
        self._told_s = self._clock.monotonic_s()
        stall_s = float(asked.get("stall_s", STALL_S))
        is_fatal = self._watch.action(STALL) is Action.STOP
        self._heart = Heart(stall_s, cell.id, None if is_fatal else self._tell)

    def __enter__(self) -> "TrainingWatch":
        self._heart.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._heart.__exit__()

    # -- before -----------------------------------------------------------------------------------

    def resume(self, before: Mapping[str, Path] | None = None) -> bool:
        """Put the newest state back; False when there is none (see `Keeper.resume`).

        Args:
            before: Files of the stage before, whose watch goes on where nothing is put back.
        """
        if self._keeper.resume():
            self._restore(self._keeper.watch)
            return True
        file = (before or {}).get(layout.WATCH_FILE)
        if file:
            self._restore(json.loads(file.read_bytes()))
        return False

    def _restore(self, state: Mapping[str, Any] | None) -> None:
        if state:
            self._watch.restore(state["watch"])
            self._since = list(state["since"])
            self._keeper.watch = dict(state)

    # -- while it trains --------------------------------------------------------------------------

    def is_due(self, step: int) -> bool:
        """Whether the training is evaluated after so many steps."""
        self._heart.beat()
        return self._evaluations.is_due(step)

    def steps(self, last: int, losses: Sequence[float], norms: Sequence[float]) -> None:
        """Hear the losses of steps, the last of which is `last`.

        Raises:
            Alarm: when a rule stops the cell.
            Checkpointed: when a spike is to be computed again.
            DeviceFault: when a spike was computed again and came out otherwise.
        """
        now_s = self._clock.monotonic_s()
        seconds, self._told_s = now_s - self._told_s, now_s
        self._since += losses
        self._seen.extend(losses)
        self._compare(last, losses)
        tokens = last * self._tokens_per_step
        seen = Steps(last, tokens, tuple(losses), tuple(norms), seconds, self._tokens_per_step)
        found = self._watch.steps(seen)
        self._act(found, last)
        self._keep()

    def look(self, step: int) -> None:
        """Evaluate after `step` steps, all of which were heard.

        Raises:
            Alarm: when a rule stops the cell.
        """
        losses = self._evaluations.losses()
        if not losses or not self._since:
            return
        point = Point.of(step, step * self._tokens_per_step, self._since, losses)
        self._since = []
        self._act(self._watch.point(point), step)
        self._keep()
        self._told_s = self._clock.monotonic_s()  # an evaluation is no step

    def _keep(self) -> None:
        self._keeper.watch = self._state(timed=True)

    def _state(self, *, timed: bool) -> dict[str, Any]:
        return {"watch": self._watch.state(timed=timed), "since": list(self._since)}

    # -- findings ---------------------------------------------------------------------------------

    def _act(self, found: Sequence[Finding], last: int) -> None:
        for finding in found:
            say(f"watch: {finding.line()}")
            if finding.rule in TIMED and self._watch.action(finding.rule) is Action.RECORD:
                self._leave_notice(finding.rule, finding.line())
        stopping = [f for f in found if self._watch.action(f.rule) is Action.STOP]
        for finding in stopping:
            if finding.rule == Spike.name and self._replay is None:
                self._leave_for_replay(finding, last)
            if finding.rule == Spike.name:  # answered: whoever mends it starts without a question
                replay.forget(self._cell.state)
            raise alarm_of(finding, cell=self._cell.id, do=self._next(finding))

    def _leave_notice(self, rule: str, text: str) -> None:
        """For the runner to tell a person, who could do something about it now."""
        notice = self._cell.out.parent / layout.DESK_NOTICE
        with suppress(OSError):
            atomic.publish_json(notice, {"rule": rule, "text": text})

    def _tell(self, alarm: Alarm) -> None:
        """What is recorded only goes on."""
        say(f"watch: {alarm.message()}")
        self._leave_notice(STALL, alarm.message())

    def _next(self, finding: Finding) -> str:
        kept = "The checkpoints before it are kept. "
        if finding.rule == Spike.name:
            return f"{kept}It was computed again and came out the same: look at data and rate."
        return f"{kept}Look at corpus and curve; nothing of this cell is worth waiting for."

    def _leave_for_replay(self, finding: Finding, last: int) -> None:
        losses = tuple(self._seen)
        through = len(losses) - (last - finding.step)
        first = finding.step - through + 1
        Replay(os.uname().nodename, first, losses[:through]).save(self._cell.state)
        raise Checkpointed(
            f"{finding.line()}; it is computed again from the checkpoint before it",
            where=self._cell.state,
            do="Run the same cell again; an equal loss is an alarm, another one a device fault.",
        )

    def _compare(self, last: int, losses: Sequence[float]) -> None:
        if self._replay is None:
            return
        step = self._replay.differing(last, losses)
        if step is None:
            return
        before = self._replay.losses[step - self._replay.first]
        after = losses[step - last + len(losses) - 1]
        fact = {"host": self._replay.host, "step": step, "losses": [before, after]}
        replay.quarantine(self._cell.state, {**fact, "replayed_on": os.uname().nodename})
        replay.forget(self._cell.state)
        raise DeviceFault(
            f"step {step:,} of {self._cell.id} came out otherwise when it was computed again",
            expected=f"{before!r} as on {self._replay.host}",
            seen=f"{after!r} on {os.uname().nodename}",
            where=self._replay.host,
            do="Keep that host out until its device is tested; the same cell goes on elsewhere.",
        )

    # -- after ------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """What the record says of the watch, and leave it for the stage that follows."""
        atomic.publish_json(self._cell.out / layout.WATCH_FILE, self._state(timed=False))
        state = self._watch.state(timed=False)
        return {
            "watch": {
                "passes": self._expected.passes,
                "curve": state["curve"],
                "findings": state["findings"],
            }
        }

    def chain(self) -> dict[str, Any]:
        """What the keeper tells of this link, with slow stretches and hosts that computed wrong."""
        chain = self._keeper.chain()
        return {**chain, "notes": [*chain["notes"], *self._notes()]}

    def _notes(self) -> list[str]:
        slow = [each.line() for each in self._watch.findings if each.rule in TIMED]
        return slow + [
            f"host {fact['host']} computed step {fact['step']} as {fact['losses'][0]!r}, "
            f"{fact['replayed_on']} as {fact['losses'][1]!r}: that host is suspect"
            for fact in replay.quarantined(self._cell.state)
        ]
