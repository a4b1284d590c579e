"""The complete state of a training: everything to go on bit for bit.

Data and learning rate are functions of the step, nothing draws random numbers after step 0, and the
optimiser's own step equals the trainer's: weights, two moments and one number are all there is.
Beside them stands what every result tells of the past: the loss of each step, and what was read of
the corpus.  So a result is the same whether a training began at step 0 or at a milestone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from quantlm import tensorfile
from quantlm.loop import Trainer
from quantlm.weights import fill

LOSSES = "losses"
_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_state(
    file: BinaryIO, trainer: Trainer, *, fingerprint: str, seen: Mapping[str, Any]
) -> None:
    """Write weights, moments, step and losses of a trainer, and what was seen of the corpus."""
    header = {
        "fingerprint": fingerprint,
        "step": trainer.step,
        "tokens": trainer.tokens,
        "seen": dict(seen),
    }
    tensorfile.write(file, tensors_of(trainer) | {LOSSES: losses_of(trainer)}, header)


def load_state(
    path: Path, trainer: Trainer, *, step: int | None = None, fresh: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Put a trainer of the same trunk into a saved state; returns what was seen of the corpus.

    Args:
        path: File of `save_state`.
        trainer: Overwritten.
        step: The step that the state must have; None takes any.
        fresh: Parameters that the state lacks because a trained method added them: they keep
            their values, and their moments are zero.

    Raises:
        ValueError: when the state has another step, lacks losses, or is of another model or batch
            size.
    """
    tensors, header = tensorfile.read(path)
    if step is not None and header["step"] != step:
        raise ValueError(
            f"the state to start from has another step: expected {step}; seen {header['step']}"
        )
    put(trainer, tensors | _kept(trainer, fresh), header)
    seen: Mapping[str, Any] = header["seen"]
    return seen


def put(trainer: Trainer, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Put a trainer into the state of some tensors (see `tensors_of`), their losses and a step.

    Raises:
        ValueError: when the tensors are of another model, the tokens of another batch size, or the
            losses not those of all steps.
    """
    losses = tensors.get(LOSSES, torch.empty(0))
    if len(losses) != header["step"]:
        raise ValueError(
            "a state does not have the loss of each of its steps: "
            f"expected {header['step']}; seen {len(losses)}"
        )
    _prepare_moments(trainer, header["step"])
    fill(tensors_of(trainer), {name: t for name, t in tensors.items() if name != LOSSES})
    trainer.step, trainer.losses = header["step"], losses.tolist()
    if trainer.tokens != header["tokens"]:
        raise ValueError(
            f"the state was trained with another batch: expected {trainer.tokens} tokens after "
            f"{trainer.step} steps; seen {header['tokens']}"
        )


def losses_of(trainer: Trainer) -> Tensor:
    """The loss of every step, exactly: float64."""
    return torch.tensor(trainer.losses, dtype=torch.float64)


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """The tensors themselves, no copies: weights and both moments under the model's names."""
    tensors: dict[str, Tensor] = {}
    for name, weight in trainer.model.named_parameters():
        moments = trainer.optimiser.state.get(weight) or _zero_moments(weight)
        tensors[f"model.{name}"] = weight
        tensors |= {f"{moment}.{name}": moments[moment] for moment in _MOMENTS}
    return tensors


def _kept(trainer: Trainer, names: Sequence[str]) -> dict[str, Tensor]:
    """What a trainer holds of some parameters."""
    held = tensors_of(trainer).items()
    return {key: tensor for key, tensor in held if key.partition(".")[2] in names}


def _prepare_moments(trainer: Trainer, step: int) -> None:
    """Give the optimiser the entries that it makes itself at its first step."""
    for weight in trainer.model.parameters():
        count = torch.tensor(float(step), device=weight.device)
        trainer.optimiser.state[weight] = {"step": count, **_zero_moments(weight)}


def _zero_moments(weight: Tensor) -> dict[str, Tensor]:
    return {moment: torch.zeros_like(weight) for moment in _MOMENTS}
