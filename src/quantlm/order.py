"""Which tokens come next: a pure function of (seed, tokens consumed), without any loader state.

A shard is cut into windows of context + 1 tokens at stride context (the last token of a window is
only a target, so a window consumes `context` tokens).  Every pass visits the shards in a seeded
order and the windows of a shard in a seeded order.  A bound on unique tokens keeps the first
windows of the first pass, and every later pass visits those again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

_SHARDS, _WINDOWS = 1, 2


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive windows of one shard: its name and the first token of each window."""

    shard: str
    starts: Indices


class Order:
    """The order of one trunk.

    Args:
        shard_tokens: Tokens of every shard, in the order of the manifest.
        context: Tokens that a window consumes.
        seed: Seed of the trunk, not negative.
        passes: How often the (bounded) corpus may be visited.
        unique_tokens: Bound on the distinct tokens to be visited; None is the whole corpus.

    Raises:
        ValueError: when the corpus holds fewer tokens than `unique_tokens`, or no window at all.
    """

    def __init__(
        self,
        shard_tokens: Mapping[str, int],
        *,
        context: int,
        seed: int,
        passes: int = 1,
        unique_tokens: int | None = None,
    ) -> None:
        self._names = list(shard_tokens)
        self._sizes = [max(0, (tokens - 1) // context) for tokens in shard_tokens.values()]
        self._context, self._seed, self._passes = context, seed, passes
        self._layouts: dict[int, tuple[list[int], list[int]]] = {}
        available = sum(self._sizes)
        self._per_pass = available if unique_tokens is None else unique_tokens // context
        if not 0 < self._per_pass <= available:
            raise ValueError(
                f"the order needs between 1 and {available} windows of {context} tokens a pass; "
                f"seen {self._per_pass}"
            )
        self._kept = self._bounded()

    @property
    def capacity_tokens(self) -> int:
        """Tokens that may be consumed: those of one pass times the declared passes."""
        return self._per_pass * self._passes * self._context

    def windows(self, position: int, count: int) -> list[Slice]:
        """The next `count` windows after `position` consumed tokens.

        Raises:
            ValueError: when `position` is not a whole number of windows, or the windows lie
                beyond the declared passes.
        """
        first, last = self._index(position), self._index(position) + count
        self._check_capacity(last)
        slices = []
        while first < last:
            shard, offset, room = self._locate(first)
            taken = min(room, last - first)
            starts = self._visits(first // self._per_pass, shard)[offset : offset + taken]
            slices.append(Slice(self._names[shard], starts * self._context))
            first += taken
        return slices

    def shards(self, start: int, stop: int) -> list[str]:
        """The shards needed from `start` to `stop` consumed tokens, in order of first need.

        Raises:
            ValueError: as `windows` does.
        """
        first, last = self._index(start), self._index(stop)
        self._check_capacity(last)
        needed: dict[str, None] = {}
        while first < last:
            shard, _, room = self._locate(first)
            needed.setdefault(self._names[shard])
            first += room
        return list(needed)

    def _index(self, position: int) -> int:
        index, rest = divmod(position, self._context)
        if rest or position < 0:
            raise ValueError(
                f"a position is a whole number of {self._context}-token windows; seen {position}"
            )
        return index

    def _check_capacity(self, last: int) -> None:
        if last > self._per_pass * self._passes:
            raise ValueError(
                f"the order has {self.capacity_tokens} tokens in {self._passes} declared passes; "
                f"asked for {last * self._context}"
            )

    def _bounded(self) -> list[int]:
        """Windows of each shard that are visited: the first ones of the first pass."""
        kept, left = [0] * len(self._sizes), self._per_pass
        for shard in _permutation(_SHARDS, self._seed, 0, 0, len(self._sizes)).tolist():
            kept[shard] = min(self._sizes[shard], left)
            left -= kept[shard]
        return kept

    def _locate(self, index: int) -> tuple[int, int, int]:
        """Shard of a window, the window's offset in this visit of it, windows left in the visit."""
        number, inside = divmod(index, self._per_pass)
        shards, ends = self._layout(number)
        at = int(np.searchsorted(ends, inside, side="right"))
        size = self._kept[shards[at]]
        return shards[at], size - (ends[at] - inside), ends[at] - inside

    def _layout(self, number: int) -> tuple[list[int], list[int]]:
        if number not in self._layouts:
            order = _permutation(_SHARDS, self._seed, number, 0, len(self._kept)).tolist()
            shards = [shard for shard in order if self._kept[shard]]
            self._layouts[number] = shards, list(accumulate(self._kept[s] for s in shards))
        return self._layouts[number]

    def _visits(self, number: int, shard: int) -> Indices:
        return _visits(self._seed, number, shard, self._sizes[shard], self._kept[shard])


@lru_cache(maxsize=4)
def _visits(seed: int, number: int, shard: int, size: int, kept: int) -> Indices:
    """Window numbers of one shard in the order of pass `number`."""
    first = _permutation(_WINDOWS, seed, 0, shard, size)[:kept]
    return first[_permutation(_WINDOWS, seed, number, shard, kept)] if number else first


def _permutation(kind: int, seed: int, number: int, shard: int, size: int) -> Indices:
    """A permutation from raw bits: NumPy keeps those the same for ever, unlike `permutation`."""
    bits = np.random.PCG64(np.random.SeedSequence([kind, seed, number, shard]))
    return np.argsort(bits.random_raw(size), kind="stable")
