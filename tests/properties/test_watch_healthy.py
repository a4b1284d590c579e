"""The watch raises no alarm where nothing is wrong: real trainings, and plateaus made of them."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from miniature import TOKENS_PER_STEP, Seen, trained
from quantgrid.watch.observation import Expected, Finding, Point, Steps
from quantgrid.watch.watch import Action, Watch

SEEDS = range(5)
PLATEAUS = 50
"""Of each training."""
Floats = NDArray[np.float64]


def _found(seen: Seen) -> Iterator[tuple[Finding, Action]]:
    """What all rules say of a training, with what is done about it."""
    watch = Watch(Expected(passes=1, unique_tokens=10**9), None)
    begin = 0
    for step, validation in seen.looks:
        losses = seen.losses[begin:step]
        norms = seen.norms[begin:step]
        tokens = step * TOKENS_PER_STEP
        told = Steps(step, tokens, tuple(losses), tuple(norms), None, TOKENS_PER_STEP)
        for finding in watch.steps(told):
            yield finding, watch.action(finding.rule)
        for finding in watch.point(Point.of(step, tokens, losses, validation)):
            yield finding, watch.action(finding.rule)
        begin = step


def _smooth(values: Floats, width: int) -> Floats:
    """A running mean that is whole at both ends."""
    ones = np.ones(width)
    return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")


def _plateau(seen: Seen, random: np.random.Generator, level: float = 1.5) -> Seen:
    """A training that learns nothing any more, with the noise of a real one (QU 7).

    Noise of steps and of evaluations is what is left when the trend is taken away; the fixed set is
    drawn anew from the sequences of the real one, whose mean is that of the text.
    """
    late = len(seen.losses) // 3
    losses = np.array(seen.losses[late:])
    of_step = losses - _smooth(losses, 33)
    looks_LS = np.array([validation for _, validation in seen.looks])
    means_L = looks_LS.mean(1)
    of_look = (means_L - _smooth(means_L, 5))[len(means_L) // 3 :]
    offsets_S = looks_LS[-1] - looks_LS[-1].mean()
    drawn_S = random.choice(offsets_S, len(offsets_S))
    steps = level + random.choice(of_step, len(seen.losses))
    looks = [(step, (level + random.choice(of_look) + drawn_S).tolist()) for step, _ in seen.looks]
    return Seen(steps.tolist(), seen.norms, looks)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_alarm_is_raised_when_a_training_is_healthy(seed: int) -> None:
    """Five real miniatures of one pass, and 250 flat plateaus that are resampled from them."""
    random = np.random.default_rng(seed)
    seen = trained(seed=seed, is_one_shard=False)
    print(f"seed {seed}: {len(seen.looks)} evaluations, {seen.losses[-1]:.2f} nats at the end")
    assert list(_found(seen)) == []
    rises = 0
    for _ in range(PLATEAUS):
        found = list(_found(_plateau(seen, random)))
        assert [f for f, action in found if action is Action.STOP] == []
        rises += bool(found)
    print(f"seed {seed}: {rises} of {PLATEAUS} plateaus were recorded as a rise")


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_plateau_is_no_plateau_when_its_text_is_known() -> None:
    """The same resampling with validation a fifth of a nat above training is an alarm."""
    random = np.random.default_rng(1)
    seen = trained(seed=0, is_one_shard=False, steps=400)
    flat = _plateau(seen, random)
    apart = flat._replace(looks=[(step, [v + 0.2 for v in each]) for step, each in flat.looks])

    assert {f.rule for f, action in _found(apart) if action is Action.STOP} == {"gap"}
