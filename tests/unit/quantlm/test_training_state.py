"""A training as a file: complete, plain safetensors, and equal bytes for equal states."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from memory_corpus import TINY, MemoryView, counting, trunk
from quantlm import environment, schedule, tensorfile
from quantlm.checkpoint import TrainingState
from quantlm.loop import Trainer

CPU = torch.device("cpu")
RATE = schedule.trunk_rate(2e-3, 4)


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    environment.prepare("cpu", 1)


def _training(
    device: torch.device = CPU, **changes: int
) -> tuple[Trainer, MemoryView, TrainingState]:
    view = counting()
    trainer = Trainer.start(trunk(TINY | changes), view, device)
    return trainer, view, TrainingState(trainer, view)


def _bytes(state: TrainingState) -> bytes:
    return b"".join(state.snapshot({"watch": 1}))


def _file(state: TrainingState, folder: Path) -> Path:
    path = folder / "c.safetensors"
    path.write_bytes(_bytes(state))
    return path


@pytest.mark.parametrize("steps", [0, 7])
def test_state_comes_back_complete_when_restored(tmp_path: Path, steps: int) -> None:
    """Weights, moments, step, losses, what was seen and random states: the next file is equal."""
    trainer, view, state = _training()
    trainer.run(steps, RATE)
    torch.rand(3)
    file = _file(state, tmp_path)
    other, other_view, other_state = _training()
    torch.manual_seed(99)

    other_state.restore(file)

    assert _bytes(other_state) == file.read_bytes()
    assert (other.step, other.losses) == (steps, trainer.losses)
    assert other_view.charged == view.charged
    assert other_state.facts(file) == {"watch": 1}
    assert other_state.tokens == trainer.tokens


@pytest.mark.gpu
def test_state_comes_back_complete_when_on_a_device(tmp_path: Path) -> None:
    """Copied off the device and back, random states of the device included."""
    device = environment.prepare("cuda", 1)
    trainer, _, state = _training(device)
    trainer.run(7, RATE)
    torch.rand(3, device=device)
    file = _file(state, tmp_path)
    other, _, other_state = _training(device)
    torch.manual_seed(99)

    other_state.restore(file)

    assert _bytes(other_state) == file.read_bytes()
    assert other.run(20, RATE) == trainer.run(20, RATE)


def test_state_is_read_by_the_library_when_it_was_written_here(tmp_path: Path) -> None:
    """The file is plain safetensors: every tensor has its values under the model's names."""
    trainer, _, state = _training()
    trainer.run(5, RATE)

    tensors = load_file(_file(state, tmp_path))

    for name, weight in trainer.model.named_parameters():
        assert torch.equal(tensors[f"model.{name}"], weight)
        moment = trainer.optimiser.state[weight]["exp_avg_sq"]
        assert torch.equal(tensors[f"exp_avg_sq.{name}"], moment)
    assert tensors["losses"].tolist() == trainer.losses


def test_snapshot_stays_when_training_goes_on() -> None:
    """What is being written in the background does not change under the writer."""
    trainer, _, state = _training()
    trainer.run(3, RATE)
    parts = state.snapshot({})
    before = b"".join(parts)

    trainer.run(6, RATE)

    assert b"".join(parts) == before


def test_size_is_about_that_of_the_file(tmp_path: Path) -> None:
    """A cadence may rely on it: within the header and the random states."""
    _, _, state = _training()

    assert 0 < _file(state, tmp_path).stat().st_size - state.size_bytes < 20_000


def test_restore_refuses_when_the_model_is_another(tmp_path: Path) -> None:
    """A state of another width is an error."""
    file = _file(_training()[2], tmp_path)

    with pytest.raises(ValueError, match="not those of the model"):
        _training(d_model=32)[2].restore(file)


def test_facts_refuse_when_the_file_is_of_another_kind(tmp_path: Path) -> None:
    """A safetensors file of somebody else is named."""
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(2)}, path)

    with pytest.raises(ValueError, match="not written by quantlm"):
        tensorfile.read_header(path)


def test_training_keeps_what_was_judged_when_asked() -> None:
    """The loop asks after every step, and fetches the losses before the state is kept."""
    trainer = _training()[0]
    kept = []

    class EveryThird:
        def is_due(self) -> bool:
            return trainer.step % 3 == 0

        def keep(self) -> None:
            kept.append((trainer.step, len(trainer.losses)))

    trainer.run(10, RATE, keeper=EveryThird())

    assert kept == [(3, 3), (6, 6), (9, 9)]
    assert len(trainer.losses) == 10
