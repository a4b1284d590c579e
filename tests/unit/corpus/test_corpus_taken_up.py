"""Who goes on from a state answers for what was read before it."""

import json
from collections.abc import Callable

import pytest

from quantgrid import layout
from quantgrid.errors import CorpusRefusal
from small_corpus import SmallCorpus

NAME = layout.shard_name(1)


def _refusal(act: Callable[[], object]) -> str:
    with pytest.raises(CorpusRefusal) as refused:
        act()
    return str(refused.value)


def test_receipt_counts_what_was_read_before_when_it_is_taken_up(corpus: SmallCorpus) -> None:
    """A shard that another process read is on the receipt, and passes are counted over both."""
    first, second = corpus.view(planned_tokens=96), corpus.view(planned_tokens=96)
    first.shard(NAME)
    first.charge(NAME, 96)

    second.take_up(json.loads(json.dumps(first.seen())))

    assert second.receipt() == first.receipt()
    assert "seen 112 tokens" in _refusal(lambda: second.charge(NAME, 16))


def test_view_refuses_when_the_state_to_go_on_from_saw_another_manifest(
    corpus: SmallCorpus,
) -> None:
    """Two manifests in one training are an alarm, and both stay on the receipt for the judge."""
    view = corpus.view(planned_tokens=96)
    seen = view.seen() | {"manifests": ["0" * 64]}

    message = _refusal(lambda: view.take_up(seen))

    assert "trained on another corpus" in message
    assert "0" * 64 in message
    assert view.receipt()["manifests"][0] == "0" * 64
