"""The signs of a rented machine are there for whoever looks, at any moment."""

from itertools import pairwise
from pathlib import Path

from quantgrid.inside.signs import Signs
from quantgrid.store.folder import FolderStore


def test_a_beat_outlives_the_next_one_when_a_machine_beats(tmp_path: Path) -> None:
    """A listing made meanwhile may miss what is new and what goes, and sees a beat all the same."""
    store = FolderStore(tmp_path)
    signs, seen = Signs(store, "a" * 64, "0" * 12, "m"), []

    for progress in range(6):
        signs.beat(progress)
        seen.append({key for key in store.list("rental/signs") if ".beat." in key})

    for before, after in pairwise(seen):
        assert before & after
    assert [len(each) for each in seen] == [1, 2, 2, 2, 2, 2]
