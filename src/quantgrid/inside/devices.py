"""What a machine computes on: what the driver says of it, and whether it computes right.

A machine that came back without its GPU, or whose memory flips bits, costs as much as a good one.
"""

import os
import subprocess
import sys
from hashlib import sha256
from typing import Any

from quantgrid.errors import DeviceFault

_QUERY = {
    "index": "number",
    "name": "name",
    "uuid": "uuid",
    "driver_version": "driver",
    "memory.total": "memory_mib",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "clocks_throttle_reasons.active": "throttle",
    "temperature.gpu": "celsius",
}
"""Fields of `nvidia-smi --help-query-gpu`, and what they are called in the facts."""

_ANSWER_S = 60.0
_COMPUTE_S = 300.0

_KNOWN = "a26d13b487f08dbf1adeea19ba95cc9086af7540f761214dca1170acfab4d86b"
"""sha256 of `_known_bytes()`, computed once on another machine."""


def facts(num_gpus: int) -> dict[str, Any]:
    """What this machine computes on.

    Args:
        num_gpus: How many GPUs there must be.

    Raises:
        DeviceFault: when one is missing, has lost bits, or something computes wrong.
    """
    seen = sha256(_known_bytes()).hexdigest()
    if seen != _KNOWN:
        raise _wrong("the processor", _KNOWN, seen)
    gpus = query() if num_gpus else []
    if len(gpus) < num_gpus:
        raise _fault("a machine was rented with GPUs that are not there", num_gpus, len(gpus))
    for gpu in gpus:
        if gpu["ecc_uncorrected"].isdigit() and int(gpu["ecc_uncorrected"]):
            lost = f"{gpu['ecc_uncorrected']} on {gpu['name']} {gpu['uuid']}"
            raise _fault("a GPU has errors of memory that it could not correct", 0, lost)
        _compute(gpu)
    return {"host": os.uname().nodename, "cpus": os.cpu_count(), "gpus": gpus}


def query() -> list[dict[str, str]]:
    """What the driver says of every GPU; a field that it does not know is what it says instead.

    Raises:
        DeviceFault: when it does not answer.
    """
    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _fault("the GPUs of this machine cannot be listed", "a list", error) from error
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return [dict(zip(_QUERY.values(), row, strict=False)) for row in rows if row[0].isdigit()]


def _compute(gpu: dict[str, str]) -> None:
    """Let a GPU compute what is known: exact whole numbers, whatever the order of the sums."""
    command = [sys.executable, "-m", "quantlm.known_answer", f"cuda:{gpu['number']}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPUTE_S, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise _wrong(f"{gpu['name']} {gpu['uuid']}", "the known answer", *said)


def _known_bytes() -> bytes:
    """A mebibyte that takes multiplication and memory to make."""
    value, parts = 1, []
    for _ in range(1 << 14):
        value = value * 6364136223846793005 + 1442695040888963407 & (1 << 512) - 1
        parts.append(value.to_bytes(64, "little"))
    return b"".join(parts)


def _wrong(what: str, expected: str, seen: str = "nothing") -> DeviceFault:
    return _fault(f"{what} computes wrong, so nothing was started on it", expected, seen)


def _fault(what: str, expected: object, seen: object) -> DeviceFault:
    return DeviceFault(
        what,
        expected=expected,
        seen=seen,
        where=os.uname().nodename,
        do="Nothing is lost: the next machine goes on.",
    )
