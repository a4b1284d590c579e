"""Asks every rule at every observation, keeps a curve, and says what is done about a finding."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from quantgrid.errors import Alarm, ConfigRefusal
from quantgrid.watch.observation import Expected, Finding, Point, Steps
from quantgrid.watch.rules import (
    NAMES,
    RULES,
    STALL,
    TIMED,
    Gap,
    NonFinite,
    Rise,
    SecondPass,
    Spike,
    Throughput,
)

VERSION = 1


class Action(StrEnum):
    """What is done when a rule fires."""

    STOP = "stop"
    RECORD = "record"


DEFAULTS: Mapping[str, Action] = {
    NonFinite.name: Action.STOP,
    SecondPass.name: Action.STOP,
    Spike.name: Action.STOP,
    Throughput.name: Action.RECORD,
    Gap.name: Action.STOP,
    Rise.name: Action.RECORD,
    STALL: Action.STOP,
}
"""A rule with false alarms stops nothing by itself."""


class Watch:
    """The rules over one training, from its first step to its last.

    Attributes:
        curve: Every evaluation that is a number.
        findings: The first one of each rule.

    Args:
        expected: What is known of the training.
        policy: Rule -> action, for rules that shall act otherwise than by default.

    Raises:
        ConfigRefusal: for a rule or an action that does not exist.
    """

    def __init__(self, expected: Expected, policy: Mapping[str, str] | None = None) -> None:
        self._expected, self._policy = expected, policy_of(policy or {})
        self._rules = [rule(expected) for rule in RULES]
        self.curve: list[Point] = []
        self.findings: list[Finding] = []

    def steps(self, seen: Steps) -> list[Finding]:
        """What the rules newly find in training steps."""
        return self._new([rule.steps(seen) for rule in self._rules])

    def point(self, point: Point) -> list[Finding]:
        """What the rules newly find in an evaluation."""
        if point.is_finite:  # NaN has no JSON; the finding tells of it
            self.curve.append(point)
        return self._new([rule.point(point) for rule in self._rules])

    def action(self, rule: str) -> Action:
        """What is done when a rule fires; a gap is expected where several passes are declared."""
        action = self._policy[rule]
        is_expected = rule == Gap.name and self._expected.passes > 1 and action == Action.STOP
        return Action.RECORD if is_expected else action

    def state(self, *, timed: bool = True) -> dict[str, Any]:
        """What an interrupted training needs to be watched on, as JSON.

        Args:
            timed: With what depends on clocks; without, equal trainings have equal states, however
                their steps were told apart.
        """
        rules = [rule for rule in self._rules if timed or rule.name not in TIMED]
        found = sorted(self.findings, key=lambda each: (each.step, NAMES.index(each.rule)))
        findings = [each for each in found if timed or each.rule not in TIMED]
        return {
            "version": VERSION,
            "rules": {rule.name: rule.state for rule in rules},
            "curve": [list(point) for point in self.curve],
            "findings": [list(finding) for finding in findings],
        }

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Go on from a state; None or one of another version starts over."""
        if not state or state.get("version") != VERSION:
            return
        for rule in self._rules:
            rule.state = state["rules"].get(rule.name, rule.state)
        self.curve = [Point(*each) for each in state["curve"]]
        self.findings = [Finding.parse(each) for each in state["findings"]]

    def _new(self, found: list[Finding | None]) -> list[Finding]:
        known = {finding.rule for finding in self.findings}
        new = [finding for finding in found if finding and finding.rule not in known]
        self.findings += new
        return new


def policy_of(asked: Mapping[str, str]) -> dict[str, Action]:
    """The action of every rule.

    Raises:
        ConfigRefusal: for a rule or an action that does not exist.
    """
    for rule, action in asked.items():
        if rule not in NAMES or action not in set(Action):
            raise ConfigRefusal(
                "this policy of the watch cannot be meant",
                expected=f"{', '.join(NAMES)}: {' or '.join(Action)}",
                seen=f"{rule}: {action}",
            )
    return {**DEFAULTS, **{rule: Action(action) for rule, action in asked.items()}}


def alarm_of(finding: Finding, *, cell: str, do: str) -> Alarm:
    """The alarm that stops a cell."""
    return Alarm(
        f"the watch stops {cell} by its rule {finding.rule}",
        expected=finding.expected,
        seen=finding.seen,
        where=f"step {finding.step:,}, {finding.tokens:,} tokens",
        do=do,
    )
