"""The order of tokens is a pure function of the position, whoever asks and whenever."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quantlm.order import Order, Slice

Window = tuple[str, int]


@st.composite
def orders(draw: st.DrawFn) -> tuple[Order, dict[str, Any]]:
    """An order over a few shards, some of them too short for a window, bounded or not."""
    context = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(lambda s: max(s) > 6))
    windows = sum(max(0, size - 1) // context for size in sizes)
    settings: dict[str, Any] = {
        "context": context,
        "seed": draw(st.integers(0, 2**32)),
        "passes": draw(st.integers(1, 3)),
        "unique_tokens": draw(st.none() | st.integers(context, windows * context)),
    }
    shards = {f"s{index}": size for index, size in enumerate(sizes)}
    return Order(shards, **settings), {**settings, "shards": shards}


def _flat(slices: Sequence[Slice]) -> list[Window]:
    return [(each.shard, int(start)) for each in slices for start in each.starts]


@settings(deadline=None, max_examples=80)
@given(orders(), st.data())
def test_order_is_the_same_when_interrupted_anywhere(
    drawn: tuple[Order, dict[str, Any]], data: st.DataObject
) -> None:
    """Any cuts, each continued by a fresh order, give the windows of one undisturbed reading."""
    order, facts = drawn
    context = facts["context"]
    total = order.capacity_tokens // context
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=6)))

    pieces: list[Window] = []
    for start, stop in zip([0, *cuts], [*cuts, total], strict=True):
        fresh = Order(facts["shards"], **{k: v for k, v in facts.items() if k != "shards"})
        pieces += _flat(fresh.windows(start * context, stop - start))

    assert pieces == _flat(order.windows(0, total))


@settings(deadline=None, max_examples=80)
@given(orders())
def test_order_visits_the_same_windows_once_when_a_pass_ends(
    drawn: tuple[Order, dict[str, Any]],
) -> None:
    """Every pass visits each window of one set exactly once, all inside their shards."""
    order, facts = drawn
    context, passes = facts["context"], facts["passes"]
    per_pass = order.capacity_tokens // context // passes

    visits = [
        _flat(order.windows(number * per_pass * context, per_pass)) for number in range(passes)
    ]

    assert all(len(set(visit)) == per_pass for visit in visits)
    assert all(set(visit) == set(visits[0]) for visit in visits)
    for shard, start in visits[0]:
        assert start % context == 0
        assert start + context + 1 <= facts["shards"][shard]


@settings(deadline=None, max_examples=50)
@given(orders())
def test_order_begins_alike_when_unique_tokens_are_bounded(
    drawn: tuple[Order, dict[str, Any]],
) -> None:
    """The first pass over a bounded corpus is the beginning of the pass over the whole one."""
    order, facts = drawn
    whole = Order(facts["shards"], context=facts["context"], seed=facts["seed"])
    count = order.capacity_tokens // facts["context"] // facts["passes"]

    assert _flat(order.windows(0, count)) == _flat(whole.windows(0, count))


@settings(deadline=None, max_examples=80)
@given(orders(), st.data())
def test_order_announces_shards_in_order_of_need_when_asked(
    drawn: tuple[Order, dict[str, Any]], data: st.DataObject
) -> None:
    """The shards named for a stretch are those its windows touch, in the order of first touch."""
    order, facts = drawn
    context = facts["context"]
    total = order.capacity_tokens // context
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))

    touched = dict.fromkeys(
        shard for shard, _ in _flat(order.windows(start * context, stop - start))
    )

    assert order.shards(start * context, stop * context) == list(touched)


def test_order_shuffles_when_there_is_much_to_shuffle() -> None:
    """Seeds and passes differ from each other, and none is the order of the file."""
    shards = {"a": 1001, "b": 1001}
    readings = [
        [
            start
            for _, start in _flat(Order(shards, context=10, seed=seed, passes=2).windows(at, 200))
        ]
        for seed, at in [(0, 0), (1, 0), (0, 2000)]
    ]

    assert len({tuple(each) for each in readings}) == 3
    assert all(np.any(np.diff(each[:100]) < 0) for each in readings)
