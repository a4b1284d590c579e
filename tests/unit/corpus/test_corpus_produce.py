"""A producer says what it will write, writes whole files, and is alone; it may die anywhere."""

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from quantgrid import layout
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus import shards
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.plan import LIVE_S, Plan
from quantgrid.corpus.produce import cut
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.shards import Tokens
from quantgrid.errors import CorpusRefusal
from quantgrid.volume import locked
from small_corpus import CLOCK, ELSEWHERE, SmallCorpus, flip, tokens_of


class TickingClock:
    """A clock on which every look takes one second."""

    def __init__(self) -> None:
        self._now = datetime(2026, 11, 30, tzinfo=UTC)

    def now(self) -> datetime:
        """A second later than last time."""
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic_s(self) -> float:
        """Seconds since the first look."""
        return self.now().timestamp()


def _inodes(folder: Path) -> dict[str, tuple[int, int]]:
    found = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def test_producer_writes_what_the_recipe_says_when_the_folder_is_empty(fresh: SmallCorpus) -> None:
    """Shards have their sizes, any tool reads them, and together they are the stream."""
    manifest = fresh.produce()

    sizes = {shard.name: shard.tokens for shard in manifest.files()}
    found = {name: tokens_of(fresh.folder / name) for name in sizes}
    assert list(sizes.values()) == [65, 100, 100, 100, 100, 100, 85]
    assert np.array_equal(np.concatenate(list(found.values())), np.concatenate([*fresh.stream()]))
    assert {name: len(tokens) for name, tokens in found.items()} == sizes
    assert set(_inodes(fresh.folder)) == {*sizes, layout.CORPUS_PLAN, layout.CORPUS_MANIFEST}
    assert Manifest.read(fresh.folder) == manifest
    assert Plan.read(fresh.folder).state == "written"


@pytest.mark.parametrize("num_tokens", [0, 1, 85, 100_000, 2**40])
def test_header_is_that_of_numpy_when_written(num_tokens: int) -> None:
    """The spelled header is the 128 bytes of NumPy's format, for every number of tokens."""
    file = io.BytesIO()
    fields = {"descr": "<u2", "fortran_order": False, "shape": (num_tokens,)}
    np.lib.format.write_array_header_1_0(file, fields)

    assert shards.header(num_tokens) == file.getvalue()
    assert len(shards.header(num_tokens)) == 128


def test_producer_touches_nothing_when_the_corpus_is_whole(corpus: SmallCorpus) -> None:
    """The same command on a whole corpus compares and writes nothing: readers stay undisturbed."""
    before = _inodes(corpus.folder)

    corpus.produce()

    assert _inodes(corpus.folder) == before


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, Path.unlink, _empty])
def test_producer_repairs_one_shard_when_it_is_damaged(
    corpus: SmallCorpus, damage: Callable[[Path], None]
) -> None:
    """What is whole is kept, what is damaged is written again, and the bytes are the same."""
    before, inodes = corpus.files(), _inodes(corpus.folder)
    damage(corpus.shard(3))

    corpus.produce()

    kept = {name for name, inode in _inodes(corpus.folder).items() if inode == inodes[name]}
    assert corpus.files() == before
    assert set(inodes) - kept == {
        layout.shard_name(3),
        layout.CORPUS_MANIFEST,
        layout.CORPUS_PLAN,
    }
    assert corpus.view().shard(layout.shard_name(3)).size == 100


def test_producer_publishes_its_plan_first_when_it_writes(fresh: SmallCorpus) -> None:
    """Before the first shard everybody can read what will be there, and that it is not."""
    seen: list[tuple[str, int]] = []

    def stream() -> Iterator[Tokens]:
        for tokens in fresh.stream():
            plan = Plan.read(fresh.folder)
            seen.append((plan.state, plan.num_shards))
            yield tokens

    fresh.produce(stream=stream())

    assert set(seen) == {("writing", 6)}


def test_producer_withdraws_the_manifest_before_it_repairs(corpus: SmallCorpus) -> None:
    """Order: invalidate, mutate, publish. A reader that looks in between sees no corpus."""
    corpus.shard(0).unlink()
    seen: list[tuple[str, bool]] = []

    def stream() -> Iterator[Tokens]:
        for index, tokens in enumerate(corpus.stream()):
            if index > 5:
                manifest = corpus.folder / layout.CORPUS_MANIFEST
                seen.append((Plan.read(corpus.folder).state, manifest.exists()))
            yield tokens

    corpus.produce(stream=stream())

    assert set(seen) == {("writing", False)}


@pytest.mark.parametrize(("lines", "seen"), [(9, "585"), (11, "715")])
def test_producer_refuses_when_the_texts_make_another_number_of_tokens(
    fresh: SmallCorpus, lines: int, seen: str
) -> None:
    """Declared totals are a promise: a shorter and a longer stream are refused, no manifest."""
    stream = iter([np.zeros(65 * lines, np.uint16)])

    with pytest.raises(CorpusRefusal) as refused:
        fresh.produce(stream=stream)

    assert "expected 650 tokens (585 to train on)" in str(refused.value)
    assert f"seen {seen} tokens" in str(refused.value)
    assert not (fresh.folder / layout.CORPUS_MANIFEST).exists()
    with pytest.raises(CorpusRefusal):
        fresh.view()


def test_producer_leaves_what_is_over_when_the_recipe_says_so(fresh: SmallCorpus) -> None:
    """The first of the shuffled tokens are taken, and no more of the stream is made than needed."""
    asked: list[int] = []

    def stream() -> Iterator[Tokens]:
        for piece in range(100):
            asked.append(piece)
            yield np.full(50, piece, np.uint16)

    part = replace(fresh.recipe, surplus="leave", num_tokens=200)

    files = dict(cut(part, stream()))

    assert sum(len(piece) for pieces in files.values() for piece in pieces) == 265
    assert asked == list(range(6))


def test_producer_refuses_when_the_code_makes_other_tokens(corpus: SmallCorpus) -> None:
    """One recipe has one content: whole shards are never replaced by other ones."""
    before = _inodes(corpus.folder)
    stream = iter([np.concatenate([*corpus.stream()])[::-1]])

    with pytest.raises(CorpusRefusal, match=r"makes another validation\.npy than it made before"):
        corpus.produce(stream=stream)

    assert _inodes(corpus.folder) == before


def test_producer_refuses_when_a_stranger_is_in_the_folder(corpus: SmallCorpus) -> None:
    """What the producer did not write it does not delete, and nothing is changed beside it."""
    corpus.shard(6).write_bytes(b"mine")
    corpus.shard(0).unlink()
    before = _inodes(corpus.folder)

    with pytest.raises(CorpusRefusal, match=r"extra shard-00006\.npy"):
        corpus.produce()

    assert _inodes(corpus.folder) == before


def test_producer_clears_debris_when_it_starts(corpus: SmallCorpus) -> None:
    """Temporary files of dead producers go away, in the folder and beside the receipt."""
    debris = [
        corpus.folder / "shard-00001.npy.qgpart-1-abcd",
        corpus.prepared.with_name(f"{corpus.prepared.name}.qgpart-1-abcd"),
        corpus.volume / f"{layout.VOLUME_IDENTITY}.qgpart-1-abcd",
    ]
    for path in debris:
        path.write_bytes(b"part")

    corpus.produce()

    assert not any(path.exists() for path in debris)


# -- alone ----------------------------------------------------------------------------------------


def test_producer_refuses_when_another_one_is_at_work_elsewhere(fresh: SmallCorpus) -> None:
    """A fresh heartbeat from another machine means that somebody works; nothing is touched."""
    fresh.leave_plan_of(ELSEWHERE, timestamp(CLOCK.now()))
    before = _inodes(fresh.folder)

    with pytest.raises(CorpusRefusal, match="another producer is writing") as refused:
        fresh.produce()

    assert "process 4711 on elsewhere" in str(refused.value)
    assert _inodes(fresh.folder) == before


def test_producer_takes_over_when_the_other_one_is_silent(fresh: SmallCorpus) -> None:
    """A heartbeat that is too old is that of a dead producer."""
    silent = CLOCK.now() - timedelta(seconds=LIVE_S + 5)
    fresh.leave_plan_of(ELSEWHERE, timestamp(silent))

    fresh.produce()

    assert Plan.read(fresh.folder).producer != ELSEWHERE
    assert Plan.read(fresh.folder).state == "written"


def test_producer_refuses_when_another_process_holds_the_folder(fresh: SmallCorpus) -> None:
    """Two producers of one machine that start at once: the kernel lets one in."""
    fresh.folder.mkdir(parents=True)

    with (
        locked(fresh.folder, wait=False) as is_mine,
        pytest.raises(CorpusRefusal, match="another producer is writing"),
    ):
        fresh.produce()

    assert is_mine
    fresh.produce()


def test_producer_needs_no_wait_when_the_dead_one_was_of_this_machine(fresh: SmallCorpus) -> None:
    """A process of this boot is looked at: its fresh heartbeat does not outlive it."""
    here = Producer.here()
    dead = Producer("0" * 16, here.host, here.place, here.pid, "1")
    fresh.leave_plan_of(dead, timestamp(CLOCK.now()))

    fresh.produce()

    assert Plan.read(fresh.folder).state == "written"


def test_producer_beats_when_it_is_slow(fresh: SmallCorpus) -> None:
    """The plan's heartbeat advances while no shard is finished."""
    beats: set[str] = set()

    def stream() -> Iterator[Tokens]:
        for index, tokens in enumerate(fresh.stream()):
            deadline = CLOCK.monotonic_s() + 30
            while index == 5 and len(beats) < 3 and CLOCK.monotonic_s() < deadline:
                beats.add(Plan.read(fresh.folder).heartbeat)
            yield tokens

    fresh.produce(stream=stream(), clock=TickingClock(), beat_s=0.001)

    assert len(beats) >= 3


class WatchingClock(SystemClock):
    """A clock that notes whether a heart beat when the producer itself looked at it."""

    def __init__(self) -> None:
        self.beating: list[bool] = []

    def now(self) -> datetime:
        """The time of day."""
        if threading.current_thread() is threading.main_thread():
            self.beating.append(any(each.name == "heartbeat" for each in threading.enumerate()))
        return super().now()


def test_heart_stops_before_the_plan_says_written(fresh: SmallCorpus) -> None:
    """A late heartbeat must not say `writing` over a corpus that is written."""
    clock = WatchingClock()

    fresh.produce(clock=clock, beat_s=0.001)

    assert clock.beating[-1] is False
    assert Plan.read(fresh.folder).state == "written"


def test_producer_stops_when_another_one_took_over(fresh: SmallCorpus) -> None:
    """Who was silent and was taken for dead finds out and writes no further."""
    with pytest.raises(CorpusRefusal, match="took this corpus over"):
        fresh.produce(stream=_taken_over(fresh, after=5), beat_s=0.001)

    assert Plan.read(fresh.folder).producer == ELSEWHERE


def test_producer_publishes_no_manifest_when_another_one_took_over(corpus: SmallCorpus) -> None:
    """Found out after the last shard it is not too late: the other one's plan stays."""
    flip(corpus.shard(0))

    with pytest.raises(CorpusRefusal, match="took this corpus over"):
        corpus.produce(stream=_taken_over(corpus, after=10), beat_s=0.001)

    assert Plan.read(corpus.folder).producer == ELSEWHERE
    assert not (corpus.folder / layout.CORPUS_MANIFEST).exists()


def _taken_over(corpus: SmallCorpus, after: int) -> Iterator[Tokens]:
    """The stream of a corpus, of which another producer takes hold after some documents."""
    for index, tokens in enumerate([*corpus.stream(), np.empty(0, np.uint16)]):
        if index == after:
            _take_over(corpus)
        yield tokens


def _take_over(corpus: SmallCorpus) -> None:
    """Publish another producer's plan until the heart has seen it (a beat may be under way)."""
    deadline = CLOCK.monotonic_s() + 30
    while CLOCK.monotonic_s() < deadline:
        corpus.leave_plan_of(ELSEWHERE, timestamp(CLOCK.now()))
        if not any(thread.name == "heartbeat" for thread in threading.enumerate()):
            return
