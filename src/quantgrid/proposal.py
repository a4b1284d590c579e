"""The largest part of a plan that some money buys: most cells, then least money.

Exact: a knapsack over the trees of jobs.  For each job, `costs[n]` is the least money that makes n
cells of its tree; trees side by side are merged by taking the best of every split.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantgrid.forecast import Work, with_needs
from quantgrid.select import AnyCell

Costs = NDArray[np.float64]


class Proposal(NamedTuple):
    """A part of a plan.

    Args:
        cells: Cells that are made.
        left_out: Wanted cells that are not.
        jobs: What makes the cells, with all that they need.
    """

    cells: tuple[str, ...]
    left_out: tuple[str, ...]
    jobs: dict[str, Work]


class _Tree(NamedTuple):
    """What some trees can make: the least cost of each number of cells, and how it comes about.

    Args:
        costs: For each number of cells, the least seconds.
        key: The job at the root; None for trees side by side, and for none.
        inner: At a root, whether its job has a cell, and what is below it; side by side, two groups
            and for each number of cells how many of them the first group makes.
    """

    costs: Costs
    key: str | None
    inner: Any


def propose(found: Mapping[str, Work], seconds: float) -> Proposal:
    """The most cells that jobs of no more than some seconds together make.

    Args:
        found: The jobs of the plan.
        seconds: What the money buys.
    """
    below: dict[str | None, list[Work]] = {}
    for work in found.values():
        below.setdefault(work.parent, []).append(work)
    trees: dict[str, _Tree] = {}
    for work in reversed(list(found.values())):  # a job comes after its parent
        trees[work.key] = _rooted(work, [trees[each.key] for each in below.get(work.key, ())])
    forest = _side_by_side([trees[each.key] for each in below.get(None, ())])
    fitting = np.flatnonzero(forest.costs <= seconds * (1 + 1e-9))
    chosen = with_needs(found, _chosen(forest, int(fitting[-1])))
    made = tuple(work.cell for work in chosen.values() if work.cell)
    every = [work.cell for work in found.values() if work.cell]
    return Proposal(made, tuple(cell for cell in every if cell not in set(made)), chosen)


def _rooted(work: Work, children: list[_Tree]) -> _Tree:
    """A job with what can be made below it; no cell costs nothing, any other costs the job too."""
    inner = _side_by_side(children)
    costs = inner.costs + work.seconds
    if work.cell is None:
        costs[0] = 0.0
    else:  # who runs the job has its cell as well
        costs = np.concatenate(([0.0], costs))
    return _Tree(costs, work.key, (work.cell is not None, inner))


def _side_by_side(trees: list[_Tree]) -> _Tree:
    """Merge pairs, so that arrays of like length meet."""
    merged = trees or [_Tree(np.zeros(1), None, None)]
    while len(merged) > 1:
        merged = [
            _merged(merged[at], merged[at + 1]) if at + 1 < len(merged) else merged[at]
            for at in range(0, len(merged), 2)
        ]
    return merged[0]


def _merged(first: _Tree, second: _Tree) -> _Tree:
    if len(first.costs) > len(second.costs):  # the loop is over the shorter one
        first, second = second, first
    size = len(first.costs) + len(second.costs) - 1
    costs, split = np.full(size, np.inf), np.zeros(size, dtype=np.int32)
    for count, cost in enumerate(first.costs):
        window = slice(count, count + len(second.costs))
        sums = second.costs + cost
        better = sums < costs[window]
        costs[window][better] = sums[better]
        split[window][better] = count
    return _Tree(costs, None, (first, second, split))


def _chosen(tree: _Tree, count: int) -> Iterable[str]:
    """The jobs that make the cheapest `count` cells; what they need is not named."""
    waiting = [(tree, count)]
    while waiting:
        each, left = waiting.pop()
        if left == 0 or each.inner is None:
            continue
        if each.key is None:
            first, second, split = each.inner
            waiting += [(first, int(split[left])), (second, left - int(split[left]))]
            continue
        has_cell, inner = each.inner
        yield each.key
        waiting.append((inner, left - has_cell))


def expression(every: Iterable[AnyCell], chosen: Iterable[str]) -> str:
    """The shortest `select` that means just some cells: by whole bases, or by what is left out."""
    kept = set(chosen)
    by_base: dict[str, list[str]] = {}
    for cell in every:
        by_base.setdefault(cell.base, []).append(cell.id)
    inside = _listed(by_base, kept)
    outside = _listed(by_base, {each for ids in by_base.values() for each in ids} - kept)
    if not outside:
        return ""
    return min(inside, f"not ({outside})", key=len)


def _listed(by_base: Mapping[str, list[str]], kept: set[str]) -> str:
    whole = [base for base, ids in by_base.items() if kept.issuperset(ids)]
    single = [
        each for base, ids in by_base.items() if base not in whole for each in ids if each in kept
    ]
    parts = [("base", whole), ("cell", single)]
    return " or ".join(f"{name} in ({', '.join(ids)})" for name, ids in parts if ids)
