"""Delay and false alarms of each rule of the watch against "three worse evaluations running".

Generated curves follow the measured ones of QU 7, set A (one shard of thirty, thirty passes; 60
evaluations of 256 sequences): losses at the passes listed there, noise of a checkpoint .006 nats
that all sequences share, noise of a sequence .25 nats that every evaluation shares.  With `--train
N`, N real miniatures of each kind are trained as well, by the loop and with the sequences of the
watch: n0 on one shard thirty times, and once over all shards.

    python bench/watch.py [--runs 200] [--train 1]
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from quantgrid.watch.observation import Expected, Finding, Point, Steps
from quantgrid.watch.rules import Gap, Rise, SecondPass, Spike

PASSES, EVALUATIONS, STEPS = 30, 60, 1465
BAD_AT = (2, 4, 6, 8, 12, 16, 20, 25, 29, 30)
BAD_TRAIN = (2.21, 1.84, 1.69, 1.60, 1.45, 1.33, 1.24, 1.15, 0.91, 0.86)
BAD_VALIDATION = (2.13, 1.85, 1.76, 1.69, 1.64, 1.635, 1.65, 1.68, 1.76, 1.77)
HEALTHY_AT = (2, 4, 8, 12, 16, 29, 30)
HEALTHY = (2.2, 1.86, 1.68, 1.595, 1.55, 1.405, 1.385)
CHECKPOINT_NATS, SEQUENCE_NATS, STEP_NATS = 0.006, 0.25, 0.03

Curve = list[Point]
Rule = Callable[[Curve], int | None]


def curve(
    at: Sequence[float],
    train: Sequence[float],
    validation: Sequence[float],
    random: np.random.Generator,
    *,
    sequences: int,
) -> Curve:
    """A curve along some points, with the noise of steps, checkpoints and sequences."""
    offsets_S = random.normal(0, SEQUENCE_NATS, sequences)
    steps = STEPS // EVALUATIONS
    points = []
    for number in range(1, EVALUATIONS + 1):
        passes = number * PASSES / EVALUATIONS
        losses = random.normal(float(np.interp(passes, at, train)), STEP_NATS, steps)
        common = random.normal(float(np.interp(passes, at, validation)), CHECKPOINT_NATS)
        seen = (common + offsets_S + random.normal(0, 0.03, sequences)).tolist()
        points.append(Point.of(number * steps, number * steps * 2048, losses.tolist(), seen))
    return points


def bad(random: np.random.Generator, sequences: int) -> Curve:
    """One shard of thirty, thirty passes."""
    return curve(BAD_AT, BAD_TRAIN, BAD_VALIDATION, random, sequences=sequences)


def healthy(random: np.random.Generator, sequences: int) -> Curve:
    """Every shard once."""
    return curve(HEALTHY_AT, HEALTHY, HEALTHY, random, sequences=sequences)


def plateau(random: np.random.Generator, sequences: int) -> Curve:
    """Nothing is learnt any more, and nothing is wrong."""
    return curve((0, PASSES), (1.5, 1.5), (1.5, 1.5), random, sequences=sequences)


# -- rules ----------------------------------------------------------------------------------------


def first(findings: Iterable[Finding | None]) -> int | None:
    """The step of the first finding."""
    return next((finding.step for finding in findings if finding), None)


def gap(points: Curve) -> int | None:
    """The rule of the watch."""
    return first(map(Gap(Expected()).point, points))


def rise(points: Curve) -> int | None:
    """The rule of the watch."""
    return first(map(Rise(Expected()).point, points))


def second_pass(points: Curve) -> int | None:
    """The rule of the watch, where one pass over a thirtieth is declared."""
    rule = SecondPass(Expected(unique_tokens=points[-1].tokens // PASSES))
    return first(rule.steps(Steps(p.step, p.tokens, (p.train,))) for p in points)


def spike(points: Curve) -> int | None:
    """The rule of the watch, on the means of steps that a curve has."""
    rule = Spike(Expected())
    return first(rule.steps(Steps(p.step, p.tokens, (p.train,))) for p in points)


def three_worse(points: Curve) -> int | None:
    """What one does without thinking: stop when three evaluations running are above the best."""
    best, worse = points[0].validation, 0
    for point in points[1:]:
        worse = worse + 1 if point.validation > best else 0
        best = min(best, point.validation)
        if worse == 3:
            return point.step
    return None


RULES: dict[str, Rule] = {
    "second-pass": second_pass,
    "gap": gap,
    "rise": rise,
    "spike": spike,
    "three worse evaluations": three_worse,
}


def delay(rule: Rule, curves: Sequence[Curve]) -> str:
    """Where in a run a rule fires: median and worst, in percent; how many it missed."""
    found = [(rule(points), points[-1].step) for points in curves]
    shares = [100 * step / last for step, last in found if step is not None]
    if not shares:
        return "never"
    missed = len(found) - len(shares)
    text = f"{np.median(shares):.0f} % (worst {max(shares):.0f} %)"
    return text + (f", missed {missed} of {len(found)}" if missed else "")


def false_alarms(rule: Rule, curves: Sequence[Curve]) -> str:
    """In how many healthy curves a rule fires."""
    return f"{100 * sum(rule(points) is not None for points in curves) / len(curves):.1f} %"


# -- real miniatures ------------------------------------------------------------------------------


def real(*, is_bad: bool, seed: int) -> Curve:
    """The curve of n0 as the watch sees it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from miniature import TOKENS_PER_STEP, trained

    seen, points, begin = trained(seed=seed, is_one_shard=is_bad), [], 0
    for step, validation in seen.looks:
        losses = seen.losses[begin:step]
        points.append(Point.of(step, step * TOKENS_PER_STEP, losses, validation))
        begin = step
    return points


def main() -> None:
    """Print a table for generated curves, and one for real ones if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="generated curves of each kind")
    parser.add_argument("--train", type=int, default=0, help="real miniatures of each kind")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    for sequences in (64, 128, 256):
        kinds = {
            kind.__name__: [kind(random, sequences) for _ in range(options.runs)]
            for kind in (bad, healthy, plateau)
        }
        print(f"generated, {options.runs} curves of each kind, {sequences} sequences")
        told(kinds)
    if options.train:
        seeds = range(options.train)
        print(f"real miniatures, {options.train} of each kind, 128 sequences")
        told({kind: [real(is_bad=kind == "bad", seed=s) for s in seeds] for kind in KINDS})


KINDS = ("bad", "healthy")


def told(kinds: dict[str, list[Curve]]) -> None:
    """One line a rule."""
    good = [kind for kind in kinds if kind != "bad"]
    print(f"  {'rule':<24} {'one shard, 30 passes':<34} " + " ".join(f"{k:>9}" for k in good))
    for name, rule in RULES.items():
        # it counts passes: a whole corpus read once has none too many
        asked = good if name != "second-pass" else []
        alarms = " ".join(f"{false_alarms(rule, kinds[kind]):>9}" for kind in asked)
        print(f"  {name:<24} {delay(rule, kinds['bad']):<34} {alarms}")


if __name__ == "__main__":
    main()
