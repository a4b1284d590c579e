"""The machine a stage computes on: made deterministic first, described in the record last."""

import os
import platform
from importlib.metadata import version
from typing import Any

import torch

PACKAGES = ("torch", "numpy", "safetensors")


def prepare(device: str, threads: int) -> torch.device:
    """Choose device and threads, and allow only deterministic arithmetic.

    Raises:
        RuntimeError: when the device is not there.
    """
    # cuBLAS is deterministic only with a fixed workspace, which it reads at its first call.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode=True)
    # Filling fresh memory only shows reads of it, and costs a pass over every tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    chosen = torch.device(device)
    torch.empty(0, device=chosen)
    return chosen


def describe(device: torch.device) -> dict[str, Any]:
    """Device, driver and versions, as records carry them."""
    on_cuda = device.type == "cuda"
    return {
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if on_cuda else platform.machine(),
        "driver": _cuda_driver() if on_cuda else None,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def _cuda_driver() -> str:
    """Version of CUDA that the driver offers, `13000` for 13.0; CPU builds lack the name."""
    return str(torch._C._cuda_getDriverVersion())  # type: ignore[attr-defined]
