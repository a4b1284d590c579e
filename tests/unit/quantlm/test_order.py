import pytest

from quantlm.order import Order

PINNED = [("a", [80, 0, 70, 60, 40, 50, 30, 10, 90, 20]), ("b", [20, 50])]


def test_order_is_pinned_when_libraries_change() -> None:
    """These windows came first in version 1: records made with them must stay comparable."""
    order = Order({"a": 101, "b": 101}, context=10, seed=7)

    slices = order.windows(0, 12)

    assert [(each.shard, each.starts.tolist()) for each in slices] == PINNED


def test_order_refuses_when_beyond_the_declared_passes() -> None:
    """One window more than the passes hold is an error that names both numbers."""
    order = Order({"a": 101}, context=10, seed=0, passes=2)

    assert order.capacity_tokens == 200
    with pytest.raises(ValueError, match=r"200 tokens in 2 declared passes; asked for 210"):
        order.windows(200, 1)
    with pytest.raises(ValueError, match=r"200 tokens in 2 declared passes; asked for 210"):
        order.shards(0, 210)


@pytest.mark.parametrize("position", [5, -10])
def test_order_refuses_when_the_position_is_no_window(position: int) -> None:
    """A position in the middle of a window, or before the first, is an error."""
    with pytest.raises(ValueError, match=f"seen {position}"):
        Order({"a": 101}, context=10, seed=0).windows(position, 1)


@pytest.mark.parametrize("unique_tokens", [9, 110])
def test_order_refuses_when_the_bound_cannot_be_met(unique_tokens: int) -> None:
    """A bound of less than a window, or of more than the corpus holds, is an error."""
    with pytest.raises(ValueError, match="between 1 and 10 windows"):
        Order({"a": 101}, context=10, seed=0, unique_tokens=unique_tokens)
