import pytest
import torch

from quantlm import environment


def test_environment_is_prepared_and_described() -> None:
    """One thread, deterministic arithmetic; the record names device and versions."""
    device = environment.prepare("cpu", 1)

    described = environment.describe(device)

    assert torch.are_deterministic_algorithms_enabled()
    assert described["threads"] == torch.get_num_threads() == 1
    assert described["device"] == "cpu"
    assert described["driver"] is None
    assert described["packages"]["torch"] == torch.__version__


def test_environment_refuses_when_the_device_is_missing() -> None:
    """A device that is not there is an error at the start, not a fall back to the CPU."""
    with pytest.raises((RuntimeError, AssertionError)):
        environment.prepare("cuda:63", 1)


@pytest.mark.gpu
def test_environment_names_the_gpu() -> None:
    """The record of a paid device names it and its driver."""
    described = environment.describe(environment.prepare("cuda", 1))

    assert described["device_name"]
    assert described["driver"]
