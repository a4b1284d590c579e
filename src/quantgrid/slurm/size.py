"""What a cell needs of a node's memory, from the size of its model; pure.

An upper estimate, for a job that asks for nothing itself: weights, gradients and two moments in
float32, the snapshot of all of it that a save takes, and the activations of one batch.  On a GPU
the activations lie elsewhere, and the estimate is only larger.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from quantgrid.spec import Model

BASE_MB = 1500
"""An interpreter with torch, and the shards that it maps; our choice."""
LEAST_MB = 1000
"""For a job without a model: an interpreter with numpy, and a shard; our choice."""
_PER_PARAMETER_BYTES = 16 + 16 + 8
"""Training state, its snapshot, and what a quantiser holds of a matrix beside its weights."""
_PER_TOKEN_FLOATS = 34
"""Floats that a layer keeps for its backward pass, per token and unit of width."""
_STEP_MB = 500


def find_memory_mb(job: str) -> int | None:
    """Megabytes for a job, rounded up; None when no model is in it.

    Args:
        job: The JSON of `quantgrid.job`.
    """
    try:
        models = list(_models(json.loads(job)))
    except ValueError:
        return None
    needed = [_needed_mb(model) for model in models]
    return -(-max(needed) // _STEP_MB) * _STEP_MB if needed else None


def _models(value: Any) -> Iterator[Model]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "model" and isinstance(inner, Mapping):
                yield Model(**inner)
            else:
                yield from _models(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _models(inner)


def _needed_mb(model: Model) -> int:
    tokens = model.batch_sequences * model.context
    per_token = model.num_layers * _PER_TOKEN_FLOATS * model.d_model + 3 * model.vocab_size
    scores = 2 * model.num_layers * model.num_heads * model.context
    activation_bytes = 4 * tokens * (per_token + scores)
    return BASE_MB + (_PER_PARAMETER_BYTES * _parameters(model) + activation_bytes) // 2**20


def _parameters(model: Model) -> int:
    """All parameters, embedding and head too."""
    return model.num_parameters + (1 if model.tied else 2) * model.vocab_size * model.d_model
