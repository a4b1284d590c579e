"""What a watch is told, what it expects, and what it finds: small values that travel as JSON."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

_DIGITS = 6
"""Of a loss in a curve: a hundredth of any error, and a third of the bytes."""


class Point(NamedTuple):
    """One evaluation on a fixed set beside the training since the one before.

    Losses are means in nats per token; `train_se` and `validation_se` are their standard errors,
    over steps and over sequences.  A validation loss without sequences has an error of 0.
    """

    step: int
    tokens: int
    train: float
    train_se: float
    validation: float
    validation_se: float

    @classmethod
    def of(
        cls, step: int, tokens: int, train_losses: Sequence[float], validation: Sequence[float]
    ) -> "Point":
        """From the losses of the steps since the last evaluation, and of each fixed sequence.

        Args:
            step: Steps done.
            tokens: Tokens consumed since the very first step.
            train_losses: At least one.
            validation: At least one; one alone is a mean whose error nobody knows.
        """
        numbers = (*_mean_and_error(train_losses), *_mean_and_error(validation))
        return cls(step, tokens, *(round(number, _DIGITS) for number in numbers))

    @property
    def gap(self) -> float:
        """Validation loss minus training loss."""
        return self.validation - self.train

    @property
    def gap_se(self) -> float:
        """Standard error of the gap."""
        return math.hypot(self.train_se, self.validation_se)

    @property
    def is_finite(self) -> bool:
        """Whether every loss is a number."""
        return math.isfinite(self.train) and math.isfinite(self.validation)


class Steps(NamedTuple):
    """Consecutive training steps, the last of which is `last`.

    `seconds` is the time that they took, None where nobody measured it; `tokens_per_step` is 0
    where nobody knows it.
    """

    last: int
    tokens: int
    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...] = ()
    seconds: float | None = None
    tokens_per_step: int = 0

    @property
    def first(self) -> int:
        """The number of the first of them."""
        return self.last - len(self.losses) + 1

    def tokens_at(self, step: int) -> int:
        """Tokens consumed after one of these steps."""
        return self.tokens - (self.last - step) * self.tokens_per_step


class Expected(NamedTuple):
    """What is known of a training before it starts.

    `unique_tokens` are those of one pass and `passes` the declared ones; None where the corpus is
    unknown.  `tokens_per_s` is what a probe measured on this kind of device.
    """

    passes: int = 1
    unique_tokens: int | None = None
    tokens_per_s: float | None = None


class Finding(NamedTuple):
    """One rule fired: where, what it saw and what it expected, as sentences."""

    rule: str
    step: int
    tokens: int
    expected: str
    seen: str

    def line(self) -> str:
        """The finding for a person."""
        return f"{self.rule}, step {self.step:,}: expected {self.expected}; seen {self.seen}"

    @classmethod
    def parse(cls, told: Any) -> "Finding":
        """From JSON."""
        return cls(*told)


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    count = len(values)
    if any(not math.isfinite(value) for value in values):
        return math.nan, 0.0
    mean = math.fsum(values) / count
    if count < 2:
        return mean, 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)
