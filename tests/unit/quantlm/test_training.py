"""Loop, schedule and state: training is the same in one piece and in many."""

import io
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from memory_corpus import MODEL, TINY, counting, trunk
from quantlm import environment, schedule, state
from quantlm.loop import NonFiniteLossError, Trainer, adamw, curve, training_results
from quantlm.model import Architecture, Transformer, build

CPU = torch.device("cpu")
RATE = schedule.trunk_rate(2e-3, 4)


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    environment.prepare("cpu", 1)


def _trainer() -> Trainer:
    return Trainer.start(trunk(TINY), counting(), CPU)


def _saved(trainer: Trainer, path: Path) -> Path:
    with path.open("wb") as file:
        state.save_state(file, trainer, fingerprint="f" * 64, seen={})
    return path


def _bytes(trainer: Trainer) -> bytes:
    file = io.BytesIO()
    state.save_state(file, trainer, fingerprint="f" * 64, seen={})
    return file.getvalue()


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_training_is_bit_exact_when_resumed(tmp_path: Path, cut: int) -> None:
    """40 steps, and some steps, a file, a fresh process's trainer and the rest: equal bytes."""
    whole, first, rest = _trainer(), _trainer(), _trainer()
    losses = whole.run(40, RATE)

    first.run(cut, RATE)
    state.load_state(_saved(first, tmp_path / "s"), rest, step=cut)

    assert rest.run(40, RATE) == losses
    assert _bytes(rest) == _bytes(whole)
    steps = {entry["step"].item() for entry in rest.optimiser.state.values()}
    assert steps == {40.0}


def test_training_is_the_same_when_repeated() -> None:
    """Two trainings from nothing write equal bytes."""
    first, second = _trainer(), _trainer()
    first.run(12, RATE)
    second.run(12, RATE)

    assert _bytes(first) == _bytes(second)


def test_state_lacks_nothing_when_a_moment_is_lost(tmp_path: Path) -> None:
    """Without the moments of the optimiser the continuation differs: the test above can fail."""
    whole, first, rest = _trainer(), _trainer(), _trainer()
    whole.run(40, RATE)
    first.run(20, RATE)
    state.load_state(_saved(first, tmp_path / "s"), rest)
    for entry in rest.optimiser.state.values():
        entry["exp_avg"].zero_()
    rest.run(40, RATE)

    assert _bytes(rest) != _bytes(whole)


def test_state_refuses_when_step_model_or_batch_differ(tmp_path: Path) -> None:
    """A state of another step, width or batch is an error that names both."""
    trainer = _trainer()
    trainer.run(3, RATE)
    path = _saved(trainer, tmp_path / "s")

    with pytest.raises(ValueError, match="expected 5; seen 3"):
        state.load_state(path, _trainer(), step=5)
    wider = Trainer.start(trunk(TINY | {"d_model": 32}), counting(), CPU)
    with pytest.raises(ValueError, match="not those of the model"):
        state.load_state(path, wider)
    batch = Trainer.start(trunk(TINY | {"batch_sequences": 8}), counting(), CPU)
    with pytest.raises(ValueError, match="expected 192 tokens after 3 steps; seen 96"):
        state.load_state(path, batch)


def test_training_learns_when_the_text_is_a_ramp() -> None:
    """The loss falls far below that of guessing among 256 bytes."""
    losses = _trainer().run(150, schedule.trunk_rate(1e-2, 4))

    assert losses[0] == pytest.approx(math.log(256), abs=0.1)
    assert losses[-1] < 3.5


def test_training_stops_when_a_loss_is_not_finite() -> None:
    """An infinite weight ends training with the number of the step, before anything is saved."""
    trainer = _trainer()
    trainer.run(12, RATE)
    with torch.no_grad():
        trainer.model.embedding.weight[0, 0] = torch.nan

    with pytest.raises(NonFiniteLossError, match="loss of step 13 is nan"):
        trainer.run(14, RATE)


def test_training_announces_and_charges_what_it_reads() -> None:
    """Shards are announced before the first step, and every token is charged to its shard."""
    view = counting()
    trainer = Trainer.start(trunk(TINY), view, CPU)
    trainer.run(100, RATE)

    assert list(dict.fromkeys(view.announced)) == list(view.charged)
    assert sum(view.charged.values()) == trainer.tokens == 3200


def test_training_refuses_when_the_corpus_is_too_short() -> None:
    """Steps beyond the declared passes are refused before the first of them."""
    trainer = _trainer()

    with pytest.raises(ValueError, match="1 declared passes"):
        trainer.run(1000, RATE)
    assert trainer.step == 0


def test_training_reports_step_tokens_and_loss() -> None:
    """The start, every tenth step and the last are reported with what this process consumed."""
    trainer, heard = _trainer(), []

    def report(step: int, *, tokens: int, loss: float | None) -> None:
        heard.append((step, tokens, loss is None))

    trainer.run(4, RATE)
    trainer.run(17, RATE, report)

    assert heard == [(4, 0, True), (14, 320, False), (17, 416, False)]


def test_optimiser_decays_matrices_alone() -> None:
    """Matrices, embedding included, decay by the recipe; gains of norms do not."""
    trainer = _trainer()
    groups = adamw(trainer.model, trainer.recipe).param_groups

    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert {p.ndim for p in groups[1]["params"]} == {1}
    assert sum(len(group["params"]) for group in groups) == len(list(trainer.model.parameters()))


def test_trunk_rate_rises_then_stays() -> None:
    """Peak * min(1, (step + 1) / warm-up)."""
    rate = schedule.trunk_rate(1.0, 4)

    assert [rate(step) for step in (0, 1, 3, 4, 1000)] == [0.25, 0.5, 1.0, 1.0, 1.0]
    assert schedule.trunk_rate(1.0, 0)(0) == 1.0


def test_cooldown_rate_falls_to_zero_after_the_last_step() -> None:
    """Full at the branch, a line from there, zero at the step that is not made."""
    rate = schedule.cooldown_rate(RATE, num_steps=50, cooldown_steps=10)

    assert [rate(step) / 2e-3 for step in (39, 40, 45, 49, 50)] == [1.0, 1.0, 0.5, 0.1, 0.0]


@pytest.mark.parametrize("milestone_step", [10, 39])
def test_results_describe_all_steps_when_training_went_on(
    tmp_path: Path, milestone_step: int
) -> None:
    """Tokens, steps, losses and their mean count from step 0, wherever the training went on."""
    milestone, trainer = _trainer(), _trainer()
    before = list(milestone.run(milestone_step, RATE))
    state.load_state(_saved(milestone, tmp_path / "s"), trainer)
    losses = trainer.run(40, RATE)

    results = training_results(trainer)

    assert losses[:milestone_step] == before
    assert (results["num_steps"], results["num_tokens"]) == (40, 40 * 32)
    assert results["train_loss"] == pytest.approx(sum(losses[-20:]) / 20)
    assert results["train_losses"] == list(enumerate(losses, start=1))


def test_state_is_refused_when_it_lacks_the_losses_of_its_steps(tmp_path: Path) -> None:
    """Going on without them would make another result of the same fingerprint."""
    milestone = _trainer()
    milestone.run(10, RATE)
    milestone.losses = milestone.losses[5:]

    with pytest.raises(ValueError, match="loss of each of its steps: expected 10; seen 5"):
        state.load_state(_saved(milestone, tmp_path / "s"), _trainer())


def test_curve_has_at_most_200_points_when_long() -> None:
    """1,001 losses make stretches of 6; each point is the mean of its stretch at its last step."""
    points = curve([float(i) for i in range(1001)])

    assert len(points) == 167
    assert points[0] == (6, 2.5)
    assert points[-1] == (1001, 998.0)


@pytest.mark.nightly
def test_loop_costs_little_when_compared_with_a_bare_one() -> None:
    """At n0 the loop takes at most 4 % more CPU time than bare steps (goal: 2 %)."""
    trainer = Trainer.start(trunk(MODEL), counting(3, 400_000), CPU)
    bare = _Bare()
    ratios = [
        _cpu_s(lambda: trainer.run(trainer.step + 20, RATE)) / _cpu_s(bare.run) for _ in range(12)
    ]

    assert sorted(ratios)[6] < 1.04


class _Bare:
    def __init__(self) -> None:
        self.model: Transformer = build(Architecture.of(MODEL), 0)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=2e-3, fused=True)
        self.tokens = torch.randint(0, 256, (20, 32, 65), generator=torch.Generator())

    def run(self) -> None:
        for batch in self.tokens:
            logits = self.model(batch[:, :-1]).flatten(0, 1)
            torch.autograd.backward(functional.cross_entropy(logits, batch[:, 1:].flatten()))
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)


def _cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
