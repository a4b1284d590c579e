"""A training as one file that another process, or another machine, goes on from bit for bit.

Beside what a milestone holds (`state`) it has the facts of its keeper, and the states of the random
generators, for a method that draws from them.  The file is safetensors: `tensorfile.read` reads it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quantlm import state, tensorfile
from quantlm.data import CorpusView
from quantlm.loop import Trainer

_RANDOM = "random."


class TrainingState:
    """Copies the state of a trainer into memory of its own, and puts it back from a file.

    The copy is one stretch of memory that lies as the file will, so that writing it needs no
    further copy and holds no lock.

    Args:
        trainer: Read by `snapshot`, overwritten by `restore`.
        view: What the trainer reads.
    """

    def __init__(self, trainer: Trainer, view: CorpusView) -> None:
        self._trainer, self._view = trainer, view
        self._device = next(trainer.model.parameters()).device
        self._arena: Tensor | None = None

    @property
    def size_bytes(self) -> int:
        """About how large a file is: three float32 numbers a weight."""
        return 12 * sum(weight.numel() for weight in self._trainer.model.parameters())

    @property
    def tokens(self) -> int:
        """Tokens consumed from step 0 on."""
        return self._trainer.tokens

    @torch.no_grad()
    def snapshot(self, facts: Mapping[str, Any]) -> Sequence[bytes | memoryview]:
        """The parts of a file; the last one is overwritten by the next snapshot."""
        trainer = self._trainer
        losses = state.losses_of(trainer)
        tensors = state.tensors_of(trainer) | self._generators()
        header = {
            "step": trainer.step,
            "tokens": trainer.tokens,
            "seen": self._view.seen(),
            "facts": dict(facts),
        }
        arena = self._copied(list(tensors.values()))
        return [
            tensorfile.header_bytes({state.LOSSES: losses} | tensors, header),
            losses.numpy().data.cast("B") if trainer.losses else b"",
            arena.numpy().data,
        ]

    def facts(self, file: Path) -> Mapping[str, Any]:
        """The facts that a snapshot was given.

        Raises:
            ValueError: when the file is of another kind.
        """
        facts: Mapping[str, Any] = tensorfile.read_header(file)["facts"]
        return facts

    def restore(self, file: Path) -> None:
        """Put trainer, view and random generators into the state of a file.

        Raises:
            ValueError: when it is of another model or batch size.
        """
        tensors, header = tensorfile.read(file)
        random = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_RANDOM)}
        state.put(self._trainer, tensors, header)
        self._view.take_up(header["seen"])
        torch.set_rng_state(random[f"{_RANDOM}cpu"])
        if (own := random.get(f"{_RANDOM}cuda")) is not None and self._device.type == "cuda":
            torch.cuda.set_rng_state(own, self._device)

    def _generators(self) -> dict[str, Tensor]:
        states = {f"{_RANDOM}cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            states[f"{_RANDOM}cuda"] = torch.cuda.get_rng_state(self._device)
        return states

    def _copied(self, tensors: Sequence[Tensor]) -> Tensor:
        """All tensors one after the other as bytes, in memory that is made once."""
        sizes = [tensor.nbytes for tensor in tensors]
        if self._arena is None:
            on_cuda = self._device.type == "cuda"
            self._arena = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=on_cuda)
        for tensor, place in zip(tensors, torch.split(self._arena, sizes), strict=True):
            part = place.view(tensor.dtype).view(tensor.shape)
            part.copy_(tensor, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return self._arena
