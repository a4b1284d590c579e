"""Training with rounded weights sees what is exported, and moves the weights behind them."""

import pytest
import torch

from memory_corpus import TINY, counting, form, trunk
from quantlm import data, environment, schedule
from quantlm.evaluation import sequence_losses
from quantlm.layer import put
from quantlm.loop import Trainer, full_precision
from quantlm.methods import qat, rtn
from quantlm.model import Architecture, build, linears
from quantlm.quantiser import Levels, quantise

TERNARY = form("qat", "ternary", "row", "absmean")
FORMS = [TERNARY, form("qat", 2, 16, None), form("qat", 3, "tensor", "noclip")]
CPU = torch.device("cpu")


def _no_data(count: int) -> torch.Tensor:
    raise AssertionError(f"nobody may ask for {count} calibration sequences")


@pytest.mark.parametrize("settings", FORMS, ids=lambda f: f"{f['bits']}-{f['group']}")
def test_training_sees_exactly_what_is_exported(settings: dict[str, object]) -> None:
    """Logits during training equal those of the model that `quantise` exports, bit for bit."""
    model = build(Architecture.of(TINY), 0)
    tokens = torch.arange(8)[None]

    seen = qat.forward(settings)(model, tokens)
    put(model, qat.quantise(model, settings, _no_data))

    assert torch.equal(seen, full_precision(model, tokens))


def test_gradient_is_that_of_the_rounded_weights() -> None:
    """The straight-through gradient equals the gradient with respect to the rounded matrix."""
    levels = Levels.of(TERNARY)
    weight = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    rounded = quantise(weight.detach(), levels).values().requires_grad_()
    x = torch.arange(8.0)

    torch.autograd.backward((qat.straight_through(weight, levels) @ x).pow(2).sum())
    torch.autograd.backward((rounded @ x).pow(2).sum())

    assert weight.grad is not None
    assert rounded.grad is not None
    assert torch.equal(weight.grad, rounded.grad)


def test_training_beats_rounding_afterwards_when_ternary() -> None:
    """On a ramp of bytes, ternary training ends far below the same training rounded after it."""
    environment.prepare("cpu", 1)
    rate = schedule.trunk_rate(1e-2, 4)
    plain = Trainer.start(trunk(TINY), counting(), CPU)
    trained = Trainer.start(trunk(TINY), counting(), CPU, forward=qat.forward(TERNARY))
    plain.run(150, rate)
    trained.run(150, rate)
    for trainer, method in ((plain, rtn), (trained, qat)):
        put(trainer.model, method.quantise(trainer.model, TERNARY, _no_data))

    sequences = data.calibration(counting(), TINY["context"], 64)
    rounded, trained_loss = (
        sum(sequence_losses(trainer.model, sequences)) / 64 for trainer in (plain, trained)
    )
    assert trained_loss < rounded - 0.2


def test_training_keeps_names_and_latent_weights() -> None:
    """Parameters stay those of the model, so that the optimiser's moments carry over."""
    environment.prepare("cpu", 1)
    trainer = Trainer.start(trunk(TINY), counting(), CPU, forward=qat.forward(TERNARY))
    names = list(dict(trainer.model.named_parameters()))
    trainer.run(3, schedule.trunk_rate(1e-2, 1))

    assert list(dict(trainer.model.named_parameters())) == names
    latent = linears(trainer.model)["blocks.0.feed_forward.up"].weight
    assert len(latent.detach().unique()) > 500  # type: ignore[no-untyped-call]
