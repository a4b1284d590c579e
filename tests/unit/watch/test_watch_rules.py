"""Each rule fires where it must, is quiet where it must, and goes on from JSON as from memory."""

import json
import math
import random

import pytest

from quantgrid.errors import Alarm, ConfigRefusal
from quantgrid.watch.observation import Expected, Point, Steps
from quantgrid.watch.rules import Gap, NonFinite, Rise, SecondPass, Spike, Throughput
from quantgrid.watch.watch import Action, Watch, alarm_of


def steps(
    *losses: float,
    last: int = 0,
    tokens: int = 0,
    norms: tuple[float, ...] = (),
    seconds: float | None = None,
) -> Steps:
    """Consecutive steps."""
    return Steps(last or len(losses), tokens, tuple(losses), norms, seconds)


def point(train: float, validation: float, *, step: int = 1, se: float = 0.01) -> Point:
    """An evaluation with the error of a mean over a fixed set."""
    return Point(step, step * 2048, train, se / 4, validation, se)


def noisy(count: int, *, sigma: float = 0.05) -> list[float]:
    """Losses around 2 nats."""
    number = random.Random(0)
    return [number.gauss(2.0, sigma) for _ in range(count)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_names_the_step_when_a_loss_is_no_number(bad: float) -> None:
    """The step itself is named, not the end of the report; gradients count too."""
    rule = NonFinite(Expected())

    found = rule.steps(steps(2.0, bad, 2.0, last=30))
    norms = rule.steps(steps(2.0, 2.0, 2.0, last=30, norms=(1.0, 1.0, bad)))

    assert found is not None
    assert (found.step, found.seen) == (29, str(bad))
    assert norms is not None
    assert norms.step == 30
    assert rule.steps(steps(2.0, 1.9)) is None


def test_non_finite_fires_when_an_evaluation_is_no_number() -> None:
    """A mean of sequences one of which is no number is no number."""
    seen = Point.of(40, 80_000, [2.0, 2.1], [2.0, math.inf])

    assert NonFinite(Expected()).point(seen) is not None


def test_second_pass_fires_at_the_first_token_beyond_when_passes_are_declared() -> None:
    """Exactly the declared passes are allowed; an unknown corpus has none to exceed."""
    rule = SecondPass(Expected(passes=2, unique_tokens=1000))

    assert rule.steps(steps(2.0, tokens=2000)) is None
    found = rule.steps(steps(2.0, tokens=2001))
    assert found is not None
    assert "2,000 tokens (2 declared passes)" in found.expected
    assert SecondPass(Expected()).steps(steps(2.0, tokens=10**12)) is None


def test_spike_fires_at_once_when_a_loss_sticks_out() -> None:
    """The first step above the limit is named, wherever it stands in a report."""
    rule = Spike(Expected())

    assert rule.steps(steps(*noisy(40), last=40)) is None
    found = rule.steps(steps(2.01, 1.99, 4.5, 2.0, last=44))

    assert found is not None
    assert (found.step, found.seen) == (43, "4.500 nats")


@pytest.mark.parametrize(
    "losses", [noisy(4000, sigma=0.3), [4 * 0.97**step + 1.5 for step in range(400)]]
)
def test_spike_is_quiet_when_losses_are_noisy_or_fall(losses: list[float]) -> None:
    """Neither the noise of small batches nor the fall of the first steps is a spike."""
    rule = Spike(Expected())

    found = [rule.steps(steps(*losses[at : at + 10])) for at in range(0, len(losses), 10)]

    assert not any(found)


def test_throughput_fires_after_three_slow_minutes_when_a_probe_was_faster() -> None:
    """The documented delay: three windows of a minute, the first of which may be mixed."""
    rule = Throughput(Expected(tokens_per_s=1000))
    tokens, fired = 0, []
    for second in range(1, 400):
        tokens += 900 if second <= 120 else 400
        if rule.steps(steps(2.0, last=second, tokens=tokens, seconds=1.0)):
            fired.append(second)

    assert 120 + 180 <= fired[0] <= 120 + 241
    assert Throughput(Expected()).steps(steps(2.0, tokens=1, seconds=1e9)) is None


def test_gap_fires_at_the_second_evaluation_running_when_text_is_known() -> None:
    """One evaluation is no evidence; two running are, and a small or vague gap never is."""
    rule = Gap(Expected())

    assert not any(map(rule.point, (point(1.5, 1.6), point(1.5, 1.5), point(1.5, 1.6))))
    found = rule.point(point(1.4, 1.6, step=4))
    assert found is not None
    assert found.step == 4
    quiet = Gap(Expected())
    assert not any(quiet.point(point(1.5, 1.549)) for _ in range(20))
    assert not any(quiet.point(point(1.5, 1.6, se=0.05)) for _ in range(20))


def test_rise_fires_when_the_mean_of_four_rises_beyond_the_noise() -> None:
    """A minimum followed by a rise is found within half of the rise."""
    curve = [2.0 - 0.04 * n for n in range(15)] + [1.44 + 0.03 * n for n in range(15)]
    number, rule = random.Random(1), Rise(Expected())
    noisy_curve = [loss + number.gauss(0, 0.005) for loss in curve]

    fired = [n for n, loss in enumerate(noisy_curve) if rule.point(point(1.0, loss))]

    assert 17 <= fired[0] <= 24


def watched(*, interrupted: bool) -> Watch:
    """A training with a spike and a gap, interrupted after every evaluation or never."""
    losses, watch = [*noisy(60), 4.5, *noisy(10)], Watch(Expected())
    for at in range(0, 70, 10):
        watch.steps(steps(*losses[at : at + 10], last=at + 10))
        watch.point(point(1.5, 1.5 + 0.003 * at, step=at + 10))
        if interrupted:
            state = json.loads(json.dumps(watch.state()))
            watch = Watch(Expected())
            watch.restore(state)
    return watch


def test_watch_goes_on_when_restored_from_json() -> None:
    """Interrupted anywhere, the same findings at the same steps and the same curve."""
    plain, often = watched(interrupted=False), watched(interrupted=True)

    assert {finding.rule for finding in plain.findings} == {"spike", "gap"}
    assert (often.findings, often.curve) == (plain.findings, plain.curve)
    assert json.dumps(often.state()) == json.dumps(plain.state())


@pytest.mark.parametrize("reports", [(70,), (1,) * 70, (61, 9), (10, 10, 40, 2, 8)])
def test_findings_are_the_same_however_steps_are_told(reports: tuple[int, ...]) -> None:
    """Links and milestones divide the steps: step, tokens and memory of every rule are equal."""
    losses = [*noisy(60), 4.5, 4.6, *noisy(6), math.nan, 2.0]
    norms = [1.0] * 66 + [math.inf] * 4

    def heard(divided: tuple[int, ...]) -> str:
        watch, at = Watch(Expected(unique_tokens=65 * 32)), 0
        for count in divided:
            part = slice(at, at + count)
            at += count
            watch.steps(Steps(at, at * 32, tuple(losses[part]), tuple(norms[part]), 0.5, 32))
        return json.dumps(watch.state(timed=False))

    told = json.loads(heard(reports))

    assert heard(reports) == heard((7,) * 10)
    findings = [(rule, step, tokens) for rule, step, tokens, *_ in told["findings"]]
    assert findings == [
        ("spike", 61, 61 * 32),
        ("second-pass", 66, 66 * 32),
        ("non-finite", 67, 67 * 32),
    ]


def test_watch_finds_a_rule_once_when_it_keeps_firing() -> None:
    """A recorded finding is the first one; the curve goes on."""
    watch = Watch(Expected(), {"gap": "record"})
    found = [watch.point(point(1.0, 1.5, step=n)) for n in range(1, 9)]

    assert [len(each) for each in found] == [0, 1, 0, 0, 0, 0, 0, 0]
    assert len(watch.curve) == 8


def test_watch_asks_about_a_rise_when_losses_agree() -> None:
    """Validation turns around, and training with it: no gap tells of it."""
    watch = Watch(Expected(passes=4))
    for n, loss in enumerate(
        [2.0 - 0.04 * n for n in range(15)] + [1.44 + 0.03 * n for n in range(15)]
    ):
        watch.point(point(loss, loss, step=n))

    assert [finding.rule for finding in watch.findings] == ["rise"]


def test_policy_decides_when_a_rule_fires() -> None:
    """Defaults stop for certain rules; a gap is expected where several passes are declared."""
    assert Watch(Expected()).action("gap") is Action.STOP
    assert Watch(Expected(passes=4)).action("gap") is Action.RECORD
    assert Watch(Expected()).action("rise") is Action.RECORD
    assert Watch(Expected(), {"spike": "record"}).action("spike") is Action.RECORD


@pytest.mark.parametrize("wrong", [{"gaps": "stop"}, {"gap": "shout"}])
def test_policy_is_refused_when_it_names_nothing_that_exists(wrong: dict[str, str]) -> None:
    """A typo in a policy turns no rule off in silence."""
    with pytest.raises(ConfigRefusal, match="policy of the watch"):
        Watch(Expected(), wrong)


def test_alarm_says_expected_and_seen_when_it_stops_a_cell() -> None:
    """One sentence with numbers, and the exit code of an alarm."""
    watch = Watch(Expected())
    watch.point(point(1.0, 1.5, step=40))
    (finding,) = watch.point(point(1.0, 1.5, step=80))

    alarm = alarm_of(finding, cell="n0-s0/800k", do="Look at the curve.")

    assert isinstance(alarm, Alarm)
    assert alarm.exit_code == 76
    assert "rule gap; expected a gap to the training loss of at most 0.05 nats" in str(alarm)
    assert "(step 80, 163,840 tokens)" in str(alarm)
