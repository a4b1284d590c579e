"""LSQ and the trust estimator: published gradients, exact exports, and training that resumes."""

import copy
import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from memory_corpus import TINY, counting, form, trunk
from quantlm import data, environment, schedule, state
from quantlm.evaluation import sequence_losses
from quantlm.layer import put
from quantlm.loop import Trainer, full_precision
from quantlm.methods import lsq, qat, rtn, trust
from quantlm.model import Architecture, build, linears
from quantlm.packing import save_values
from quantlm.quantiser import GAUSSIAN_CLIPS, Levels, quantise
from quantlm.weights import load_weights

CPU = torch.device("cpu")
LSQ3 = form("lsq", 3, "row", "learned")
FORMS: list[tuple[Any, dict[str, Any]]] = [
    (method, form("x", bits, "row", scale))
    for method, scale in ((lsq, "learned"), (trust, "gaussian"))
    for bits in ("ternary", 2, 3, 4)
]


def _no_data(count: int) -> Tensor:
    raise AssertionError(f"nobody may ask for {count} calibration sequences")


def _trainer(method: Any, settings: dict[str, Any]) -> Trainer:
    environment.prepare("cpu", 1)
    trainer = Trainer.start(trunk(TINY), counting(), CPU, forward=method.forward(settings))
    method.extend(trainer, settings)
    return trainer


@pytest.mark.parametrize(("method", "settings"), FORMS)
def test_training_sees_exactly_what_is_exported(
    tmp_path: Path, method: Any, settings: dict[str, Any]
) -> None:
    """After training, its logits are those of the file of weights, bit for bit."""
    trainer = _trainer(method, settings)
    trainer.run(5, schedule.trunk_rate(1e-2, 1))
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        seen = method.forward(settings)(trainer.model, tokens)

    layers = method.quantise(trainer.model, settings, _no_data)
    with (tmp_path / "w").open("wb") as file:
        save_values(file, trainer.model, layers, fingerprint="f")

    exported = load_weights(tmp_path / "w", Architecture.of(TINY), CPU)
    with torch.no_grad():
        assert torch.equal(seen, full_precision(exported, tokens))


@pytest.fixture(scope="module")
def plain() -> Trainer:
    """A training that rounds nothing."""
    environment.prepare("cpu", 1)
    trainer = Trainer.start(trunk(TINY), counting(), CPU)
    trainer.run(100, schedule.trunk_rate(1e-2, 4))
    return trainer


@pytest.mark.parametrize(
    ("method", "settings"), [each for each in FORMS if each[1]["bits"] in ("ternary", 2)]
)
def test_training_beats_rounding_afterwards_when_levels_are_few(
    plain: Trainer, method: Any, settings: dict[str, Any]
) -> None:
    """On a ramp of bytes it ends below the same training rounded to nearest after it."""
    trained = _trainer(method, settings)
    trained.run(100, schedule.trunk_rate(1e-2, 4))
    bits = settings["bits"]
    nearest = form("rtn", bits, "row", "absmean" if bits == "ternary" else "noclip")
    rounded_model = copy.deepcopy(plain.model)
    put(rounded_model, rtn.quantise(rounded_model, nearest, _no_data))
    put(trained.model, method.quantise(trained.model, settings, _no_data))

    sequences = data.calibration(counting(), TINY["context"], 64)
    rounded, learned = (
        sum(sequence_losses(each, sequences)) / 64 for each in (rounded_model, trained.model)
    )
    assert learned < rounded - 0.05


# -- the trust estimator --------------------------------------------------------------------------


@pytest.mark.parametrize("bits", GAUSSIAN_CLIPS)
def test_gaussian_levels_lie_where_normal_weights_lose_least(bits: int | str) -> None:
    """No other clip loses 2 % less on normal weights; the outermost level is the clip times rms."""
    weight = torch.randn(1, 200_000, generator=torch.Generator().manual_seed(0))
    levels = Levels(bits=bits, group="row", rule="gaussian", scale_dtype="float32")
    layer = quantise(weight, levels)
    outermost = layer.values().abs().amax() / weight.square().mean().sqrt()

    def error(share: float) -> float:
        scaled = type(layer)(levels, layer.codes, layer.scales * share, None)
        nearest = torch.bucketize(weight, _midpoints(scaled.scales, levels))
        values = (nearest + levels.qmin + levels.shift) * scaled.scales
        return (values - weight).square().mean().item()

    assert outermost.item() == pytest.approx(GAUSSIAN_CLIPS[bits], rel=1e-5)
    assert len(layer.values().unique()) >= 0.95 * (levels.qmax - levels.qmin + 1)
    assert layer.values().mean().abs() < 0.02
    assert error(1.0) < 1.02 * min(error(share) for share in (0.94, 0.97, 1.03, 1.06))
    assert error(1.0) < 0.98 * min(error(share) for share in (0.85, 1.2))


def _midpoints(scales: Tensor, levels: Levels) -> Tensor:
    codes = torch.arange(levels.qmin, levels.qmax) + 0.5 + levels.shift
    return codes * scales.flatten()


def test_trust_drops_the_gradient_beyond_the_clip_and_nowhere_else() -> None:
    """Inside and on the edge between two levels it passes whole; further out it is zero."""
    levels = Levels(bits=2, group="row", rule="gaussian", scale_dtype="float32")
    weight = torch.randn(4, 4096, generator=torch.Generator().manual_seed(0), requires_grad=True)
    step = quantise(weight.detach(), levels).scales
    beyond = weight.detach().abs() > 2 * step * 1.001
    inside = weight.detach().abs() < 2 * step * 0.999

    torch.autograd.backward(trust.trusted(weight, levels).sum())

    assert weight.grad is not None
    assert beyond.any()
    assert (weight.grad[beyond] == 0).all()
    assert (weight.grad[inside] == 1).all()


# -- LSQ ------------------------------------------------------------------------------------------


def test_lsq_gives_the_published_gradients() -> None:
    """Equations 3 and 5 of 1902.08153; the logarithm's chain rule is one more factor of the step.

    Weights: 1 inside, 0 beyond.  Step: level - w / step inside, the outermost level beyond, scaled.
    """
    levels = Levels(bits=3, group="row", rule="learned", scale_dtype="float32")
    source = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 64, generator=source).requires_grad_()
    log_step = torch.full((6,), math.log(0.4)).requires_grad_()
    pull = torch.randn(6, 64, generator=source)

    torch.autograd.backward((lsq.learned(weight, log_step, levels) * pull).sum())

    steps = weight.detach() / 0.4
    below, above = steps <= -4, steps >= 3
    of_step = torch.where(below, -4.0, torch.where(above, 3.0, steps.round() - steps))
    share = 1 / math.sqrt(64 * 3)
    assert weight.grad is not None
    assert log_step.grad is not None
    assert below.any()
    assert above.any()
    torch.testing.assert_close(weight.grad, pull * ~(below | above))
    torch.testing.assert_close(log_step.grad, (pull * of_step).sum(1) * share * 0.4)


def test_lsq_agrees_with_torch_away_from_the_outermost_levels() -> None:
    """Values and gradients are those of torch's kernel.

    It decides after rounding whether a weight is inside, so weights up to half a step beyond the
    outermost level are left out.
    """
    levels = Levels(bits=3, group="row", rule="learned", scale_dtype="float32")
    drawn = torch.randn(6, 256, generator=torch.Generator().manual_seed(0))
    near = ((drawn / 0.4 > 2.9) & (drawn / 0.4 < 3.6)) | (
        (drawn / 0.4 < -3.9) & (drawn / 0.4 > -4.6)
    )
    weight = torch.where(near, torch.zeros(()), drawn).requires_grad_()
    again = weight.detach().clone().requires_grad_()
    log_step = torch.full((6,), math.log(0.4)).requires_grad_()
    step = torch.full((6,), 0.4).requires_grad_()

    ours = lsq.learned(weight, log_step, levels)
    theirs = torch._fake_quantize_learnable_per_channel_affine(  # type: ignore[attr-defined]
        again, step, torch.zeros(6), 0, levels.qmin, levels.qmax, 1 / math.sqrt(256 * 3)
    )
    for values in (ours, theirs):
        torch.autograd.backward(values.square().sum())

    assert weight.grad is not None
    assert log_step.grad is not None
    assert step.grad is not None
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(weight.grad, again.grad)
    torch.testing.assert_close(log_step.grad, step.grad * 0.4)


def test_lsq_starts_from_the_weights_and_moves_the_steps() -> None:
    """The first forward pass sets 2 mean |w| / sqrt(qmax); training changes it, row by row."""
    trainer = _trainer(lsq, LSQ3)
    name, matrix = next(iter(linears(trainer.model).items()))
    started = 2 * matrix.weight.detach().abs().mean(1) / math.sqrt(3)
    assert torch.isneginf(lsq.log_step(matrix)).all()

    trainer.run(1, schedule.trunk_rate(0.0, 1))
    torch.testing.assert_close(lsq.log_step(matrix).detach().exp(), started, rtol=1e-3, atol=0)
    trainer.run(30, schedule.trunk_rate(1e-2, 1))

    moved = lsq.quantise(trainer.model, LSQ3, _no_data)[name].scales.flatten().float() / started
    assert len(moved.unique()) > 8
    assert (moved - 1).abs().max() > 0.02
    assert list(dict(trainer.model.named_parameters())) == list(
        dict(build(Architecture.of(TINY), 0).named_parameters())
    )


def test_lsq_goes_on_from_a_milestone_and_from_its_own_state_bit_for_bit(tmp_path: Path) -> None:
    """A milestone holds no steps, a state of LSQ does; interrupted training ends the same."""
    rate = schedule.trunk_rate(1e-2, 1)
    plain = Trainer.start(trunk(TINY), counting(), CPU)
    plain.run(4, rate)
    _save(tmp_path / "milestone", plain)

    def begun() -> Trainer:
        trainer = Trainer.start(trunk(TINY), counting(), CPU, forward=lsq.forward(LSQ3))
        added = lsq.extend(trainer, LSQ3)
        state.load_state(tmp_path / "milestone", trainer, step=4, fresh=added)
        return trainer

    whole, first, rest = begun(), begun(), _trainer(lsq, LSQ3)
    whole.run(12, rate)
    first.run(7, rate)
    _save(tmp_path / "half", first)
    state.load_state(tmp_path / "half", rest)
    rest.run(12, rate)

    _save(tmp_path / "one", whole)
    _save(tmp_path / "other", rest)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with pytest.raises(ValueError, match="not those of the model"):
        state.load_state(tmp_path / "milestone", _trainer(lsq, LSQ3))


def _save(path: Path, trainer: Trainer) -> None:
    file = io.BytesIO()
    state.save_state(file, trainer, fingerprint="", seen={})
    path.write_bytes(file.getvalue())


def test_methods_that_learn_weights_alone_add_no_parameter() -> None:
    """For them a milestone's state is all there is."""
    for method in (qat, trust):
        trainer = Trainer.start(trunk(TINY), counting(), CPU)
        before = list(dict(trainer.model.named_parameters()))

        assert method.extend(trainer, {}) == ()
        assert list(dict(trainer.model.named_parameters())) == before
