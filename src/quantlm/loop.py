"""The training loop: AdamW on a model, resumable at every step, bit for bit.

The state is the weights, the two moments of the optimiser and the step; data and rate are functions
of the step.  Shape suffixes: B sequences, T positions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from quantlm.data import Batches, CorpusView
from quantlm.model import Architecture, Transformer, build
from quantlm.order import Order
from quantlm.schedule import Rate
from quantlm.speed import Forward, faster

REPORT_EVERY = 10
CURVE_POINTS = 200
TAIL_STEPS = 20


class Report(Protocol):
    """Hears how far training is."""

    def __call__(self, step: int, *, tokens: int, loss: float | None) -> None:
        """`step` steps are done; this process consumed `tokens`; None is a loss not yet known."""


def unheard(step: int, *, tokens: int, loss: float | None) -> None:
    """Nobody listens."""


class Keeper(Protocol):
    """Keeps the state of a training for another process to go on from."""

    def is_due(self) -> bool:
        """Whether the state is to be kept now; asked after every step."""

    def keep(self) -> None:
        """Keep the state; raises when this process has to leave."""


class NoKeeper:
    """Keeps nothing."""

    def is_due(self) -> bool:
        """Never."""
        return False

    def keep(self) -> None:
        """Nothing is kept."""


class Watcher(Protocol):
    """Looks at a training from the side; what it raises ends it."""

    def is_due(self, step: int) -> bool:
        """Whether `look` is to be called after so many steps; asked after every step."""

    def steps(self, last: int, losses: Sequence[float], norms: Sequence[float]) -> None:
        """Losses and gradient norms (before clipping) of steps, the last of which is `last`."""

    def look(self, step: int) -> None:
        """Evaluate after `step` steps; `steps` has told all of them."""


class Unwatched:
    """Nobody looks."""

    def is_due(self, step: int) -> bool:
        """Never."""
        return step < 0

    def steps(self, last: int, losses: Sequence[float], norms: Sequence[float]) -> None:
        """Nothing is heard."""

    def look(self, step: int) -> None:
        """Nothing is evaluated."""


class NonFiniteLossError(ArithmeticError):
    """The loss became infinite or not a number: these weights are worthless."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a model is trained; the rate's course is in `schedule`."""

    batch_sequences: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    beta1: float
    beta2: float
    clip_norm: float
    precision: str = "float32"
    compiled: bool = False
    microbatch_sequences: int | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Self:
        """The recipe in a resolved model spec, which also says what the model is."""
        return cls(**{each.name: spec[each.name] for each in fields(cls) if each.name in spec})


def full_precision(model: Transformer, tokens_BT: Tensor) -> Tensor:
    """Logits of the model as it is."""
    return cast("Tensor", model(tokens_BT))


class Trainer:
    """A model in training, between two steps.

    Attributes:
        losses: Loss of every step from step 0 on, in nats per token, whoever computed it.

    Args:
        model: Trained in place.
        batches: Where tokens come from.
        recipe: Settings of the optimiser.
        forward: How logits are made from the model; a trained method rounds the weights here.
    """

    def __init__(
        self,
        model: Transformer,
        batches: Batches,
        recipe: Recipe,
        *,
        forward: Forward = full_precision,
    ) -> None:
        self.model, self.recipe, self.step = model, recipe, 0
        self.optimiser = adamw(model, recipe)
        self.losses: list[float] = []
        self._batches = batches
        self._forward = faster(
            forward, self.device, precision=recipe.precision, compiled=recipe.compiled
        )

    @classmethod
    def start(
        cls,
        trunk: Mapping[str, Any],
        view: CorpusView,
        device: torch.device,
        *,
        forward: Forward = full_precision,
    ) -> Self:
        """Step 0 of a resolved trunk spec."""
        spec = trunk["model"]
        recipe = Recipe.of(spec)
        order = Order(
            view.shard_tokens,
            context=spec["context"],
            seed=trunk["seed"],
            passes=trunk["passes"],
            unique_tokens=trunk["unique_tokens"],
        )
        batches = Batches(
            view,
            order,
            context=spec["context"],
            batch_sequences=recipe.batch_sequences,
            device=device,
        )
        model = build(Architecture.of(spec), trunk["seed"]).to(device)
        return cls(model, batches, recipe, forward=forward)

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step consumes."""
        return self._batches.tokens_per_step

    @property
    def tokens(self) -> int:
        """Tokens consumed from step 0 on."""
        return self.step * self.tokens_per_step

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    def logits(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V) as training sees them."""
        return self._forward(self.model, tokens_BT)

    def run(
        self,
        stop: int,
        rate: Rate,
        report: Report = unheard,
        keeper: Keeper = NoKeeper(),  # noqa: B008 - it has no state
        watcher: Watcher = Unwatched(),  # noqa: B008 - it has no state
    ) -> list[float]:
        """Train until `stop` steps are done; returns `losses`.

        Losses are fetched, watched and reported every `REPORT_EVERY` steps: asking for each would
        make an accelerator wait.  No state is kept before its losses were watched.

        Raises:
            NonFiniteLossError: when a loss is infinite or not a number.
            ValueError: when the data does not reach that far.
        """
        start = self.tokens
        self._batches.ahead(self.step, stop)
        report(self.step, tokens=0, loss=None)
        waiting: list[tuple[Tensor, Tensor]] = []
        while self.step < stop:
            waiting.append(self._advance(rate(self.step)))
            is_due, is_looked_at = keeper.is_due(), watcher.is_due(self.step)
            if is_due or is_looked_at or len(waiting) == REPORT_EVERY or self.step == stop:
                self.losses += self._fetch(waiting, watcher)
                waiting.clear()
                report(self.step, tokens=self.tokens - start, loss=self.losses[-1])
            if is_looked_at:
                watcher.look(self.step)
            if is_due:
                keeper.keep()
        return self.losses

    def _advance(self, learning_rate: float) -> tuple[Tensor, Tensor]:
        """One step; its loss and the norm of its gradient, which nobody has waited for."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        loss = self._gradients(self._batches.at(self.step))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return loss, norm

    def _gradients(self, tokens_BT: Tensor) -> Tensor:
        """Add up the gradients of a batch, in parts when the recipe says so; its mean loss."""
        parts = torch.split(tokens_BT, self.recipe.microbatch_sequences or len(tokens_BT))
        if len(parts) == 1:
            loss = self._loss(tokens_BT)
            torch.autograd.backward(loss)
            return loss.detach()
        losses = []
        for part_BT in parts:
            losses.append(self._loss(part_BT) / len(parts))
            torch.autograd.backward(losses[-1])
        return torch.stack([loss.detach() for loss in losses]).sum()

    def _loss(self, tokens_BT: Tensor) -> Tensor:
        logits_BTV = self.logits(tokens_BT[:, :-1])
        return functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten())

    def _fetch(self, waiting: Sequence[tuple[Tensor, Tensor]], watcher: Watcher) -> list[float]:
        both: list[list[float]] = torch.stack([torch.stack(each) for each in waiting]).tolist()
        losses, norms = ([each[part] for each in both] for part in (0, 1))
        watcher.steps(self.step, losses, norms)
        for offset, loss in enumerate(losses):
            if not math.isfinite(loss):
                step = self.step - len(losses) + offset + 1
                raise NonFiniteLossError(
                    f"the loss of step {step} is {loss}; expected a finite number of nats. "
                    "Lower the learning rate or look at the data of this step."
                )
        return losses


def adamw(model: Transformer, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW that decays the matrices (embedding included) and leaves the gains of norms alone."""
    parameters = list(model.parameters())
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": recipe.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        fused=True,
    )


def training_results(trainer: Trainer) -> dict[str, Any]:
    """What a record says about training, from step 0 on.

    It is the same whether the training began here, went on from a milestone or was interrupted.
    """
    tail = trainer.losses[-TAIL_STEPS:]
    return {
        "num_tokens": trainer.tokens,
        "num_steps": trainer.step,
        "train_loss": math.fsum(tail) / len(tail) if tail else None,
        "train_losses": curve(trainer.losses),
    }


def curve(losses: Sequence[float]) -> list[tuple[int, float]]:
    """At most `CURVE_POINTS` points (last step of a stretch, mean loss over the stretch)."""
    stretch = max(1, math.ceil(len(losses) / CURVE_POINTS))
    parts = [(start, losses[start : start + stretch]) for start in range(0, len(losses), stretch)]
    return [(start + len(part), math.fsum(part) / len(part)) for start, part in parts]
