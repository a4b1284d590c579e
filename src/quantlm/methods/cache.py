"""Keys and values in a cache of few bits; all weights stay as they are."""

from collections.abc import Mapping
from typing import Any

from quantlm import running
from quantlm.layer import Layer
from quantlm.model import Transformer
from quantlm.quantiser import Calibration


def quantise(
    model: Transformer,  # noqa: ARG001 - the signature that all methods share
    form: Mapping[str, Any],  # noqa: ARG001
    calibration: Calibration,  # noqa: ARG001
) -> dict[str, Layer]:
    """No matrix."""
    return {}


def run(model: Transformer, form: Mapping[str, Any]) -> None:
    """Let a model of these weights compute as its form says."""
    running.round_cache(model, form["kv_bits"])
