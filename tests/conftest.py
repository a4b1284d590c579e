"""What all tests share: one thread each, long tests on demand, devices only where they are."""

import compileall
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from examples import NIGHTLY
from rented_copy import gate, place
from runpod_rig import runpod, runpod_double
from s3_server import credentials, s3_address, seaweed
from shares import Shares, import_a_part, in_turns
from slurm_cluster import cluster, running_cluster
from small_disk import small_disk

TESTS = Path(__file__).resolve().parent
PROJECT = TESTS.parent

__all__ = [
    "cluster",
    "credentials",
    "gate",
    "place",
    "running_cluster",
    "runpod",
    "runpod_double",
    "s3_address",
    "seaweed",
    "small_disk",
]

# What an example takes is the machine's affair: several workers share two cores.
for _profile in ("busy", NIGHTLY):
    hypothesis.settings.register_profile(
        _profile, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
hypothesis.settings.load_profile("busy")

# Workers share two cores: a second thread per worker makes small matrices several times slower.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="agg")

# A shell's background job ignores SIGINT, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--nightly` runs the long tests as well."""
    parser.addoption("--nightly", action="store_true", help="run the long tests too")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples there are, and compile what thousands of interpreters import.

    Where PYTHONDONTWRITEBYTECODE is set, as in containers, every one of them would do it again.
    """
    if config.getoption("--nightly"):
        hypothesis.settings.load_profile(NIGHTLY)
    if not hasattr(config, "workerinput"):
        for folder in ("src", "rehearsal"):
            compileall.compile_dir(PROJECT / folder, quiet=2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Workers that collect everything share out what that costs."""
    worker = getattr(session.config, "workerinput", None)
    if worker and [Path(each).resolve() for each in session.config.args] == [TESTS]:
        number = int(worker["workerid"].removeprefix("gw"))
        import_a_part(TESTS, number, worker["workercount"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests unless asked for; without a device, skip its tests with the reason."""
    if not config.getoption("--nightly"):
        long = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _has_cuda_device():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; this machine has none"))
    items[:] = in_turns(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    """`--dist loadscope` gives shares of ours away, in the order of collection."""
    return Shares(config, log) if config.getoption("dist") == "loadscope" else None


def _has_cuda_device() -> bool:
    """Whether torch sees a device; torch is imported only where the driver's own tool exists."""
    if shutil.which("nvidia-smi") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def root() -> Path:
    """The working copy that is under test."""
    return PROJECT
