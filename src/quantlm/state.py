"""The complete state of a training: everything to go on bit for bit.

Data and learning rate are functions of the step, nothing draws random numbers after step 0, and the
optimiser's own step equals the trainer's: weights, two moments and one number are all there is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from quantlm import tensorfile
from quantlm.loop import Trainer
from quantlm.weights import fill

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_state(file: BinaryIO, trainer: Trainer, *, fingerprint: str) -> None:
    """Write weights, moments and step of a trainer."""
    header = {"fingerprint": fingerprint, "step": trainer.step, "tokens": trainer.tokens}
    tensorfile.write(file, tensors_of(trainer), header)


def load_state(
    path: Path, trainer: Trainer, *, step: int | None = None, fresh: Sequence[str] = ()
) -> None:
    """Put a trainer of the same trunk into a saved state.

    Args:
        path: File of `save_state`.
        trainer: Overwritten.
        step: The step that the state must have; None takes any.
        fresh: Parameters that the state lacks because a trained method added them: they keep
            their values, and their moments are zero.

    Raises:
        ValueError: when the state has another step, or is of another model or batch size.
    """
    tensors, header = tensorfile.read(path)
    if step is not None and header["step"] != step:
        raise ValueError(
            f"the state to start from has another step: expected {step}; seen {header['step']}"
        )
    put(trainer, tensors | _kept(trainer, fresh), header)


def put(trainer: Trainer, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Put a trainer into the state of some tensors (see `tensors_of`) and a step.

    Raises:
        ValueError: when the tensors are of another model, or the tokens of another batch size.
    """
    _prepare_moments(trainer, header["step"])
    fill(tensors_of(trainer), tensors)
    trainer.step = header["step"]
    if trainer.tokens != header["tokens"]:
        raise ValueError(
            f"the state was trained with another batch: expected {trainer.tokens} tokens after "
            f"{trainer.step} steps; seen {header['tokens']}"
        )


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
