"""The rules of the watch: pure, each with its delay and its false alarms.

Figures are those of QU 7, checked by `bench/watch.py`: one shard of thirty in thirty passes against
healthy runs, and healthy curves resampled on a flat plateau.  A rule keeps what it remembers as
JSON, so that it goes on after an interruption as if there had been none.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from quantgrid.watch.observation import Expected, Finding, Point, Steps

_TO_SIGMA = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""


class Rule(Protocol):
    """One question that is asked at every observation; `state` is what it remembers."""

    name: ClassVar[str]
    state: Any

    def steps(self, seen: Steps) -> Finding | None:
        """What training steps say."""

    def point(self, point: Point) -> Finding | None:
        """What an evaluation says."""


class _Rule:
    name: ClassVar[str]

    def __init__(self, expected: Expected) -> None:
        self.expected, self.state = expected, self._empty()

    def _empty(self) -> Any:
        return None

    def steps(self, seen: Steps) -> Finding | None:
        """Nothing, unless a rule says otherwise."""

    def point(self, point: Point) -> Finding | None:
        """Nothing, unless a rule says otherwise."""


class NonFinite(_Rule):
    """A loss that is no number.

    Delay: none after the loss is known; false alarms: none, for no healthy loss is infinite.
    """

    name = "non-finite"

    def steps(self, seen: Steps) -> Finding | None:
        """The first step whose loss or gradient is no number."""
        for step, loss in enumerate(seen.losses, start=seen.first):
            told = {"loss": loss}
            if seen.gradient_norms:
                told["gradient norm"] = seen.gradient_norms[step - seen.first]
            for what, value in told.items():
                if not math.isfinite(value):
                    tokens = seen.tokens_at(step)
                    return Finding(self.name, step, tokens, f"a finite {what}", str(value))
        return None

    def point(self, point: Point) -> Finding | None:
        """An evaluation that is no number."""
        if point.is_finite:
            return None
        seen = f"{point.validation} after training losses of {point.train}"
        return Finding(self.name, point.step, point.tokens, "a finite validation loss", seen)


class SecondPass(_Rule):
    """More tokens than the declared passes hold.

    Delay: the steps of one report, 3.3 % of the run of QU 7; false alarms: none, it counts.
    """

    name = "second-pass"

    def steps(self, seen: Steps) -> Finding | None:
        """Tokens beyond the declared passes."""
        if self.expected.unique_tokens is None:
            return None
        allowed = self.expected.passes * self.expected.unique_tokens
        if seen.tokens <= allowed:
            return None
        steps = range(seen.first, seen.last)
        at = next((step for step in steps if seen.tokens_at(step) > allowed), seen.last)
        tokens = seen.tokens_at(at)
        expected = f"at most {allowed:,} tokens ({self.expected.passes} declared passes)"
        return Finding(self.name, at, tokens, expected, f"{tokens:,} tokens")


class Spike(_Rule):
    """A loss far above the steps before it.

    Above the median of the last `WINDOW` steps by `NATS` and by `Z` robust standard deviations.
    Delay: none after the loss is known; false alarms: none in the healthy runs of `bench/watch.py`.
    A slow divergence moves the median along and is for the rules on evaluations.
    """

    name = "spike"
    WINDOW: ClassVar[int] = 64
    LEAST: ClassVar[int] = 16
    NATS: ClassVar[float] = 0.5
    Z: ClassVar[float] = 8.0

    def _empty(self) -> list[float]:
        return []

    def steps(self, seen: Steps) -> Finding | None:
        """The first step that sticks out; steps that do are not remembered as usual ones."""
        found = None
        for step, loss in enumerate(seen.losses, start=seen.first):
            limit = self._limit()
            if loss <= limit and math.isfinite(loss):
                self.state = [*self.state[1 - self.WINDOW :], loss]
            elif loss > limit and found is None:
                expected = f"at most {limit:.3f} nats after {len(self.state)} steps like them"
                tokens, told = seen.tokens_at(step), f"{loss:.3f} nats"
                found = Finding(self.name, step, tokens, expected, told)
        return found

    def _limit(self) -> float:
        if len(self.state) < self.LEAST:
            return math.inf
        middle = _median(self.state)
        sigma = _TO_SIGMA * _median(abs(loss - middle) for loss in self.state)
        return float(middle + max(self.NATS, self.Z * sigma))


class Throughput(_Rule):
    """Fewer tokens a second than half of what a probe measured, `ROUNDS` times `WINDOW_S` long.

    Delay: 3 minutes; false alarms: none where nobody else uses the device, and many where somebody
    does, so that it is recorded and does not stop a cell unless a policy says so.
    """

    name = "throughput"
    WINDOW_S: ClassVar[float] = 60.0
    ROUNDS: ClassVar[int] = 3
    SHARE: ClassVar[float] = 0.5

    def _empty(self) -> dict[str, float]:
        return {"tokens": -1, "seconds": 0.0, "rounds": 0}

    def steps(self, seen: Steps) -> Finding | None:
        """A window that ended, and was the last of several slow ones."""
        probed, state = self.expected.tokens_per_s, self.state
        if probed is None or seen.seconds is None:
            return None
        if state["tokens"] < 0:  # nobody knows when these steps began
            self.state = {**state, "tokens": seen.tokens}
            return None
        seconds = state["seconds"] + seen.seconds
        if seconds < self.WINDOW_S:
            self.state = {**state, "seconds": seconds}
            return None
        rate = (seen.tokens - state["tokens"]) / seconds
        rounds = state["rounds"] + 1 if rate < self.SHARE * probed else 0
        self.state = {"tokens": seen.tokens, "seconds": 0.0, "rounds": rounds}
        if rounds < self.ROUNDS:
            return None
        expected = f"at least {self.SHARE:.0%} of the probe's {probed:,.0f} tokens/s"
        return Finding(self.name, seen.last, seen.tokens, expected, f"{rate:,.0f} tokens/s")


class Gap(_Rule):
    """Validation loss above training loss: what is trained on is known already.

    While nothing repeats, the loss of a step is that of text never seen, and both agree.  More than
    `NATS`, more than `Z` standard errors, at two evaluations running.
    Delay: 36 % of the headline run of n0 with its 128 sequences (three seeds), 30 to 38 % with 256
    (QU 7).  False alarms: a fixed set is easier or harder than the text as a whole for good, by
    three errors in .3 % of all sets and a little more often where sequences are few (.6 % of 3,000
    generated runs with 64); three and a half are asked for, which .05 % of them had.  Where several
    passes are declared it is a warning.
    """

    name = "gap"
    NATS: ClassVar[float] = 0.05
    Z: ClassVar[float] = 3.5
    RUNNING: ClassVar[int] = 2

    def _empty(self) -> int:
        return 0

    def point(self, point: Point) -> Finding | None:
        """The evaluation that was the last of several with a gap."""
        is_gap = point.gap > max(self.NATS, self.Z * point.gap_se)
        self.state = self.state + 1 if is_gap else 0
        if self.state < self.RUNNING:
            return None
        expected = f"a gap to the training loss of at most {self.NATS} nats or {self.Z:g} errors"
        seen = f"{point.gap:.3f} nats with an error of {point.gap_se:.3f}, {self.state} times"
        return Finding(self.name, point.step, point.tokens, expected, seen)


class Rise(_Rule):
    """The mean of four evaluations above the best such mean; noise is that of successive ones.

    Delay: 70 to 90 % of the headline run; false alarms: 9 % of resampled plateaus, so that it is
    recorded and stops nothing.  It works for many declared passes too, and knows no training loss.
    """

    name = "rise"
    MEAN_OF: ClassVar[int] = 4
    LEAST: ClassVar[int] = 9
    NATS: ClassVar[float] = 0.02
    Z: ClassVar[float] = 5.0
    RUNNING: ClassVar[int] = 2

    def _empty(self) -> dict[str, Any]:
        return {"losses": [], "best": None, "changes": [], "running": 0}

    def point(self, point: Point) -> Finding | None:
        """The evaluation that was the last of several that rose."""
        state, size = self.state, self.MEAN_OF
        if not point.is_finite:
            return None
        losses = [*state["losses"][-size + 1 :], point.validation]
        changes = state["changes"]
        if state["losses"]:
            changes = [*changes[-63:], abs(point.validation - state["losses"][-1])]
        mean = math.fsum(losses) / len(losses)
        best = state["best"] if len(losses) == size else None
        rise = mean - best if best is not None else 0.0
        known = [mean] if len(losses) == size else []
        best = min([*known, *([state["best"]] if state["best"] is not None else [])], default=None)
        is_rise = len(changes) >= self.LEAST - 1 and rise > max(self.NATS, self._noise(changes))
        running = state["running"] + 1 if is_rise else 0
        self.state = {"losses": losses, "best": best, "changes": changes, "running": running}
        if running < self.RUNNING:
            return None
        expected = f"a mean of {size} evaluations at most {self.NATS} nats above the best"
        return Finding(self.name, point.step, point.tokens, expected, f"{rise:.3f} nats above it")

    def _noise(self, changes: list[float]) -> float:
        """`Z` standard deviations of the difference of two means, from successive differences."""
        sigma = _TO_SIGMA * _median(changes) / math.sqrt(2)
        return self.Z * sigma * math.sqrt(2 / self.MEAN_OF)


def _median(numbers: Iterable[float]) -> float:
    """The middle of them; the module that has it costs a fold a tenth of its start."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


RULES: tuple[type[_Rule], ...] = (NonFinite, SecondPass, Spike, Throughput, Gap, Rise)
"""Cheapest first."""

TIMED = frozenset({Throughput.name})
"""Rules that go by a clock: two equal trainings may differ in what they find."""
STALL = "stall"
"""The rule of `watch.heart`, which needs a thread and no observation."""
NAMES = (*(rule.name for rule in RULES), STALL)
