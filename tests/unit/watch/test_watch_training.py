"""The watch in a training: what it stops, what it leaves, and how a spike is told from a device."""

import json
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import interrupted
from checkpoint_parts import Count, HandClock
from detached import await_true
from quantgrid import layout
from quantgrid.cell import Cell
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.errors import Alarm, Checkpointed, DeviceFault
from quantgrid.watch.heart import Heart
from quantgrid.watch.observation import Expected
from quantgrid.watch.training import TrainingWatch, watched

TOKENS = 2048
KEPT_AT = (30, 60, 90)
Loss = Callable[[int], float]


class _Evaluations:
    """Every twenty steps; validation losses around what a function says."""

    tokens_per_step = TOKENS
    tokens_between = 20 * TOKENS

    def __init__(self, validation: Loss) -> None:
        self.validation, self.step = validation, 0

    def is_due(self, step: int) -> bool:
        self.step = step
        return step % 20 == 0

    def losses(self) -> Sequence[float]:
        mean = self.validation(self.step)
        return [mean + 0.01 * math.sin(number) for number in range(64)]


class _Stage:
    """One link of a stage that trains by a function of the step, and is kept now and then."""

    def __init__(self, cell: Cell, loss: Loss, validation: Loss | None = None) -> None:
        self.state, self.loss, self.cell = Count(), loss, cell
        self.evaluations = _Evaluations(validation or loss)
        self.keeper = Keeper(cell, self.state, manifest="m" * 64, clock=HandClock())
        self.watch = TrainingWatch(
            cell,
            self.keeper,
            self.evaluations,
            Expected(unique_tokens=10**9),
        )

    def run(self, stop: int = 120, before: Path | None = None) -> dict[str, Any]:
        """Train in reports of ten steps; what the record says of the watch."""
        with self.keeper, self.watch:
            self.watch.resume({layout.WATCH_FILE: before} if before else None)
            step = self.state.tokens // TOKENS
            while step < stop:
                losses = [self.loss(step + n) for n in range(1, 11)]
                step += 10
                self.state.tokens = step * TOKENS
                self.watch.steps(step, losses, [1.0] * 10)
                if self.watch.is_due(step):
                    self.watch.look(step)
                if step in KEPT_AT:
                    self.keeper.keep()
        self.cell.out.mkdir(exist_ok=True)
        return self.watch.results()["watch"]  # type: ignore[no-any-return]


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell whose state is kept in a folder of the test."""
    made: Cell = interrupted.cell(tmp_path)
    return made


def falling(step: int) -> float:
    """A healthy course."""
    return 2.0 + 2.0 / step + 0.02 * math.sin(step)


def _kept_tokens(cell: Cell) -> list[int]:
    found = (layout.find_checkpoint(path.name) for path in cell.state.iterdir())
    return sorted(each[0] for each in found if each)


def test_healthy_training_is_left_alone_when_watched(cell: Cell) -> None:
    """No finding, a curve of all evaluations, and nothing in the notes."""
    stage = _Stage(cell, falling)

    told = stage.run()

    assert [each[0] for each in told["curve"]] == [20, 40, 60, 80, 100, 120]
    assert told["findings"] == []
    assert stage.watch.chain()["notes"] == []


@pytest.mark.parametrize("interrupted_at", [30, 60, 90])
def test_curve_is_the_same_when_a_link_was_cut(cell: Cell, interrupted_at: int) -> None:
    """Whatever was kept, the record and the file for the next stage come out equal."""
    whole = _Stage(cell, falling).run()
    left = (cell.out / layout.WATCH_FILE).read_bytes()
    for path in cell.state.iterdir():
        path.unlink()

    _Stage(cell, falling).run(interrupted_at)
    again = _Stage(cell, falling)

    assert again.run() == whole
    assert (cell.out / layout.WATCH_FILE).read_bytes() == left
    assert again.keeper.chain()["resumed_tokens"] == interrupted_at * TOKENS


def test_curve_goes_on_when_a_stage_follows(cell: Cell, tmp_path: Path) -> None:
    """A cool-down's record has the curve of its trunk as well."""
    _Stage(cell, falling).run()
    before = tmp_path / "before.json"
    before.write_bytes((cell.out / layout.WATCH_FILE).read_bytes())
    (tmp_path / "n").mkdir()
    second = _Stage(interrupted.cell(tmp_path / "n"), falling)
    second.state.tokens = 120 * TOKENS

    told = second.run(180, before)

    assert [each[0] for each in told["curve"]] == list(range(20, 181, 20))


class _Corpus(NamedTuple):
    manifest: str = "m" * 64
    unique_tokens: int = 10**9


def test_checkpoint_of_before_the_trouble_is_kept_when_many_newer_ones_follow(cell: Cell) -> None:
    """A gap is known two evaluations late: one so old is there beside the newest two."""
    state, evaluations = Count(), _Evaluations(falling)

    keeper, _ = watched(cell, state, evaluations, _Corpus(), passes=1)
    with keeper:
        for state.tokens in range(10 * TOKENS, 121 * TOKENS, 10 * TOKENS):
            keeper.keep()

    two_before = 120 * TOKENS - 2 * evaluations.tokens_between
    old, *_, second, newest = _kept_tokens(cell)
    assert 0 < old <= two_before
    assert (second, newest) == (110 * TOKENS, 120 * TOKENS)


def test_non_finite_loss_stops_with_a_usable_checkpoint(cell: Cell) -> None:
    """The alarm names the step; the state from before it is kept, and none after it."""
    stage = _Stage(cell, lambda step: math.nan if step == 75 else falling(step))

    with pytest.raises(Alarm, match=r"rule non-finite.*step 75"):
        stage.run()

    assert _kept_tokens(cell) == [30 * TOKENS, 60 * TOKENS]
    assert Keeper(cell, Count(), manifest="m" * 64, clock=HandClock()).resume()


def test_gap_stops_at_the_second_evaluation_when_text_is_known(cell: Cell) -> None:
    """Validation stands still while training falls: stopped at step 80, not at the end."""
    stage = _Stage(cell, lambda step: 2.0 - 0.01 * step, lambda step: 2.0 - 0.01 * min(step, 40))

    with pytest.raises(Alarm, match="rule gap"):
        stage.run()

    assert stage.state.tokens == 80 * TOKENS
    assert _kept_tokens(cell)[-1] == 60 * TOKENS


def test_gap_is_recorded_when_the_policy_says_so(cell: Cell) -> None:
    """The cell goes on to its end, and the record has the finding."""
    cell = cell._replace(watch={"policy": {"gap": "record"}})
    stage = _Stage(cell, lambda step: 2.0 - 0.01 * step, lambda _: 2.0)

    told = stage.run()

    assert [finding[0] for finding in told["findings"]] == ["gap"]


class _Device:
    """Computes a spike at step 75: always, or the first time only."""

    def __init__(self, *, is_science: bool) -> None:
        self.is_science, self.times = is_science, 0

    def __call__(self, step: int) -> float:
        if step != 75:
            return falling(step)
        self.times += 1
        return 7.5 if self.is_science or self.times == 1 else falling(step)


def test_spike_is_a_science_alarm_when_it_comes_again(cell: Cell) -> None:
    """The first link leaves for a replay; the second, from the checkpoint, sees the same."""
    device = _Device(is_science=True)

    with pytest.raises(Checkpointed, match=r"spike, step 75.*computed again"):
        _Stage(cell, device).run()
    second = _Stage(cell, device)
    with pytest.raises(Alarm, match=r"rule spike.*came out the same"):
        second.run()

    assert second.keeper.chain()["resumed_tokens"] == 60 * TOKENS
    assert device.times == 2
    assert _kept_tokens(cell)[-1] == 60 * TOKENS
    assert _Stage(cell, falling).run()["findings"] == []  # mended, it accuses no device


def test_spike_is_a_device_fault_when_it_does_not_come_again(cell: Cell) -> None:
    """The host is quarantined in a fact that the record has; the next link finishes the cell."""
    device = _Device(is_science=False)

    with pytest.raises(Checkpointed):
        _Stage(cell, device).run()
    with pytest.raises(DeviceFault, match=r"step 75 of .* came out otherwise"):
        _Stage(cell, device).run()
    third = _Stage(cell, device)
    told = third.run()

    (note,) = third.watch.chain()["notes"]
    assert "computed step 75 as 7.5" in note
    assert "that host is suspect" in note
    assert told["findings"] == []


def test_spike_is_replayed_from_the_start_when_nothing_was_kept(cell: Cell) -> None:
    """Before the first checkpoint the replay starts over."""

    def early(step: int) -> float:
        return 9.0 if step == 25 else falling(step)

    with pytest.raises(Checkpointed):
        _Stage(cell, early).run()
    with pytest.raises(Alarm, match="rule spike"):
        _Stage(cell, early).run()


@pytest.mark.parametrize("probed", [{"n0": 1000.0}, {"n0-qat": 1000.0, "n0": 1.0}])
def test_slow_stretch_is_told_when_a_probe_was_faster(cell: Cell, probed: dict[str, float]) -> None:
    """A collapse of throughput goes into the notes of the chain, and not into the results."""
    cell = cell._replace(
        watch={"tokens_per_s": probed},
        spec={"trunk": {"model": {"name": "n0"}}, "form": {"method": "qat"}},
    )
    clock = HandClock()
    stage = _Stage(cell, falling)
    stage.watch = TrainingWatch(
        cell,
        stage.keeper,
        stage.evaluations,
        Expected(unique_tokens=10**9),
        clock=clock,
    )
    evaluate = stage.evaluations.is_due

    def slow(step: int) -> bool:
        clock.seconds += 100.0  # ten steps of 2048 tokens: 205 tokens/s
        return evaluate(step)

    stage.evaluations.is_due = slow  # type: ignore[method-assign]

    told = stage.run()

    (note,) = stage.watch.chain()["notes"]
    assert note.startswith("throughput, step")
    notice = json.loads((cell.out.parent / layout.DESK_NOTICE).read_bytes())
    assert notice == {"rule": "throughput", "text": note}
    assert told["findings"] == []


def test_stall_is_told_and_ends_nothing_when_the_policy_records_it(cell: Cell) -> None:
    """Somebody may do something about it while the cell waits for its device."""
    cell = cell._replace(watch={"policy": {"stall": "record"}, "stall_s": 0.05})
    notice = cell.out.parent / layout.DESK_NOTICE

    with _Stage(cell, falling).watch:
        await_true(notice.exists, "nobody told it")

    told = json.loads(notice.read_bytes())
    assert told["rule"] == "stall"
    assert "rule stall; expected a step within 0.05 s" in told["text"]


def test_heart_ends_a_cell_when_no_step_comes() -> None:
    """Silence for the given time and no longer than a fraction of it more."""
    heard = threading.Event()
    alarms: list[Alarm] = []

    def end(alarm: Alarm) -> None:
        alarms.append(alarm)
        heard.set()

    with Heart(0.3, "n0-s0/800k", end):
        assert heard.wait(180)

    assert alarms[0].exit_code == 76
    assert "ends n0-s0/800k by its rule stall" in str(alarms[0])


def test_heart_is_quiet_when_beats_come() -> None:
    """Beats keep it from its alarm for many times the silence that it allows."""
    alarms: list[Alarm] = []
    beats = threading.Event()
    with Heart(3.0, "cell", alarms.append) as heart:
        for _ in range(40):
            heart.beat()
            beats.wait(0.1)

    assert alarms == []
