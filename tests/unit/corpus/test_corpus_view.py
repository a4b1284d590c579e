"""A view is the sealed corpus or a refusal that says what was expected and what was seen."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import small_corpus
from quantgrid import layout
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus.manifest import Manifest
from quantgrid.errors import CorpusRefusal
from small_corpus import ELSEWHERE, FAR_FUTURE, USABLE, SmallCorpus, flip, swap, tokens_of

NAMES = [layout.shard_name(index) for index in range(6)]


def _refusal(act: Callable[[], object]) -> str:
    with pytest.raises(CorpusRefusal) as refused:
        act()
    assert refused.value.exit_code == 78
    assert refused.value.expected is not None
    assert refused.value.seen is not None
    return str(refused.value)


def test_view_gives_the_tokens_when_nothing_differs(corpus: SmallCorpus) -> None:
    """All shards and the validation set are the tokens on disk, read-only, in manifest order."""
    view = corpus.view()

    assert view.shard_tokens == dict(zip(NAMES, [100] * 5 + [85], strict=True))
    for name in NAMES:
        assert np.array_equal(view.shard(name), tokens_of(corpus.folder / name))
        assert view.shard(name).dtype == np.uint16
    assert np.array_equal(view.validation(), tokens_of(corpus.folder / layout.VALIDATION_SHARD))
    with pytest.raises(ValueError, match="read-only"):
        view.shard(NAMES[0])[0] = 1


# -- each fault, refused when the view opens ------------------------------------------------------


def _delete(corpus: SmallCorpus) -> None:
    corpus.shard(3).unlink()


def _shorten(corpus: SmallCorpus) -> None:
    corpus.shard(3).write_bytes(corpus.shard(3).read_bytes()[:-2])


def _lengthen(corpus: SmallCorpus) -> None:
    corpus.shard(3).write_bytes(corpus.shard(3).read_bytes() + b"\0\0")


def _empty(corpus: SmallCorpus) -> None:
    corpus.shard(3).write_bytes(b"")


def _add(corpus: SmallCorpus) -> None:
    corpus.shard(6).write_bytes(corpus.shard(5).read_bytes())


def _rename(corpus: SmallCorpus) -> None:
    corpus.shard(3).rename(corpus.shard(7))


def _swap_unequal(corpus: SmallCorpus) -> None:
    swap(corpus.shard(4), corpus.shard(5))


def _edit_digest(corpus: SmallCorpus) -> None:
    path = corpus.folder / layout.CORPUS_MANIFEST
    old = Manifest.read(corpus.folder).shards[0].sha256
    path.write_text(path.read_text().replace(old, "0" * 64))


def _edit_total(corpus: SmallCorpus) -> None:
    path = corpus.folder / layout.CORPUS_MANIFEST
    path.write_text(path.read_text().replace('"num_tokens": 585', '"num_tokens": 485'))


def _drop_from_manifest(corpus: SmallCorpus) -> None:
    """A shard and its line vanish together, totals and form kept right."""
    found = Manifest.read(corpus.folder)
    value = found.to_json()
    value["shards"].pop()
    value |= {"num_shards": 5, "num_tokens": 500}
    path = corpus.folder / layout.CORPUS_MANIFEST
    path.write_text(json.dumps(value, sort_keys=True, indent=2) + "\n")
    corpus.shard(5).unlink()


def _tear_manifest(corpus: SmallCorpus) -> None:
    path = corpus.folder / layout.CORPUS_MANIFEST
    path.write_bytes(path.read_bytes()[:100])


def _write_now(corpus: SmallCorpus) -> None:
    now = timestamp(SystemClock().now())
    corpus.leave_plan_of(ELSEWHERE, now)


def _die_writing(corpus: SmallCorpus) -> None:
    corpus.leave_plan_of(ELSEWHERE, "2026-01-01T00:00:00Z")


def _lose_plan(corpus: SmallCorpus) -> None:
    (corpus.folder / layout.CORPUS_PLAN).unlink()


def _lose_sentinel(corpus: SmallCorpus) -> None:
    corpus.sentinel.unlink()


def _put_receipt_for_sentinel(corpus: SmallCorpus) -> None:
    corpus.sentinel.write_bytes(corpus.prepared.read_bytes())


def _change_volume(corpus: SmallCorpus) -> None:
    path = corpus.volume / layout.VOLUME_IDENTITY
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id": "0123456789abcdef"}))


def _unmount(corpus: SmallCorpus) -> None:
    corpus.volume.rename(corpus.volume.with_name("elsewhere"))


def _plan_of_more(corpus: SmallCorpus) -> None:
    corpus.set_plan(num_shards=60)


FAULTS: list[tuple[Callable[[SmallCorpus], None], list[str]]] = [
    (_delete, ["expected 7 files", "seen 6 files", "missing shard-00003.npy"]),
    (_shorten, ["shard-00003.npy is short", "expected 328 bytes (100 tokens)", "seen 326 bytes"]),
    (_lengthen, ["shard-00003.npy is long", "expected 328 bytes (100 tokens)", "seen 330 bytes"]),
    (_empty, ["shard-00003.npy is short", "expected 328 bytes", "seen 0 bytes"]),
    (_add, ["expected 7 files", "seen 8 files", "extra shard-00006.npy"]),
    (_rename, ["missing shard-00003.npy", "extra shard-00007.npy"]),
    (_swap_unequal, ["shard-00004.npy is short", "expected 328 bytes", "seen 298 bytes"]),
    (_edit_digest, ["manifest differs", "expected manifest ", "seen manifest "]),
    (_edit_total, ["manifest was edited", "6 shards with 585 tokens", "6 shards with 485 tokens"]),
    (_drop_from_manifest, ["num_shards differs", "expected num_shards 6", "seen num_shards 5"]),
    (_tear_manifest, ["the manifest of this corpus cannot be read"]),
    (_write_now, ["still writing", "expected state written", "process 4711 on elsewhere"]),
    (_die_writing, ["stopped before the end", "expected state written", "2026-01-01T00:00:00Z"]),
    (_lose_plan, ["the plan of this corpus is not here"]),
    (_plan_of_more, ["the plan", "expected num_shards 6", "seen num_shards 60"]),
    (_lose_sentinel, ["the sentinel of this corpus is not here"]),
    (_put_receipt_for_sentinel, ["this is no sentinel", "quantgrid/corpus-prepared"]),
    (_change_volume, ["seen volume 0123456789abcdef", "Nothing is lost, you look at another"]),
    (_unmount, ["no volume is mounted here"]),
]


@pytest.mark.parametrize(("damage", "said"), FAULTS)
def test_view_refuses_at_the_start_when_names_sizes_or_records_differ(
    corpus: SmallCorpus, damage: Callable[[SmallCorpus], None], said: list[str]
) -> None:
    """No view opens; the message has the numbers, and a next step unless nothing can be done."""
    damage(corpus)

    message = _refusal(corpus.view)

    for words in said:
        assert words in message
    assert message.startswith("refused: ")
    assert not message.rstrip().endswith(")")


def test_view_refuses_when_the_sentinel_is_of_another_corpus(
    corpus: SmallCorpus, tmp_path: Path
) -> None:
    """A sentinel that vouches for another recipe on the same volume opens nothing."""
    other = small_corpus.sealed(tmp_path / "other", "other")
    value = json.loads(other.sentinel.read_text())
    value["volume"] = json.loads((corpus.volume / layout.VOLUME_IDENTITY).read_text())["id"]
    corpus.sentinel.write_text(json.dumps(value))

    message = _refusal(corpus.view)

    assert "expected corpus other" in message
    assert "seen corpus small" in message


def test_view_refuses_when_only_the_recipe_is_another(corpus: SmallCorpus) -> None:
    """The name of a corpus does not vouch for its recipe."""
    value = json.loads(corpus.sentinel.read_text()) | {"recipe": "0" * 64}
    corpus.sentinel.write_text(json.dumps(value))

    message = _refusal(corpus.view)

    assert f"expected recipe {'0' * 64}" in message
    assert f"seen recipe {corpus.recipe.digest}" in message


def test_view_ignores_debris_and_hidden_files_when_nothing_else_differs(
    corpus: SmallCorpus,
) -> None:
    """What no reader would read as a shard is no difference."""
    (corpus.folder / ".nfs0001").write_bytes(b"x")
    (corpus.folder / "shard-00001.npy.qgpart-1-abcd").write_bytes(b"x")

    assert corpus.view().shard(NAMES[1]).size == 100


# -- each fault, refused before the first token ---------------------------------------------------


def test_shard_is_refused_when_one_bit_was_flipped(corpus: SmallCorpus) -> None:
    """Damage of the same size shows before use, with both digests; other shards stay usable."""
    sealed = Manifest.read(corpus.folder).shards[3].sha256
    flip(corpus.shard(3))
    view = corpus.view()

    message = _refusal(lambda: view.shard(NAMES[3]))

    assert "shard-00003.npy is not what was sealed" in message
    assert f"expected sha256 {sealed}" in message
    assert "seen sha256 " in message
    assert view.shard(NAMES[2]).size == 100


@pytest.mark.parametrize("offset", [0, 60, 127, 128, 327])
def test_shard_is_refused_when_any_byte_differs(corpus: SmallCorpus, offset: int) -> None:
    """Header and tokens are covered from the first byte to the last."""
    flip(corpus.shard(0), offset)

    assert "not what was sealed" in _refusal(lambda: corpus.view().shard(NAMES[0]))


def test_shards_are_refused_when_two_are_swapped(corpus: SmallCorpus) -> None:
    """Two shards of one size in each other's place are refused, and the message says which."""
    swap(corpus.shard(1), corpus.shard(2))
    view = corpus.view()

    assert "which is shard-00002.npy" in _refusal(lambda: view.shard(NAMES[1]))
    assert "which is shard-00001.npy" in _refusal(lambda: view.shard(NAMES[2]))


def test_validation_is_refused_when_it_was_changed(corpus: SmallCorpus) -> None:
    """The validation set is verified like any shard."""
    flip(corpus.folder / layout.VALIDATION_SHARD)

    assert "validation.npy is not what was sealed" in _refusal(corpus.view().validation)


def test_shard_is_refused_when_it_vanishes_after_the_start(corpus: SmallCorpus) -> None:
    """A file that goes away between start and use is a refusal, not a stack trace."""
    view = corpus.view()
    corpus.shard(4).unlink()

    assert "shard-00004.npy is gone" in _refusal(lambda: view.shard(NAMES[4]))


def test_shard_is_refused_when_it_grows_after_the_start(corpus: SmallCorpus) -> None:
    """The size is looked at again when a shard is mapped."""
    view = corpus.view()
    corpus.shard(4).write_bytes(corpus.shard(4).read_bytes() + b"\0\0")

    assert "seen 330 bytes" in _refusal(lambda: view.shard(NAMES[4]))


# -- hashing ahead --------------------------------------------------------------------------------


def _join_verifiers() -> None:
    for thread in threading.enumerate():
        if thread.name == "verifier":
            thread.join(timeout=180)
            assert not thread.is_alive()


def test_ahead_verifies_in_the_background_when_asked(corpus: SmallCorpus) -> None:
    """Shards asked ahead are hashed and mapped without anybody waiting for them."""
    view = corpus.view()
    view.ahead(NAMES[:4])
    _join_verifiers()
    for index in range(4):
        corpus.shard(index).unlink()

    assert view.receipt()["verified_shards"] == 4
    assert all(view.shard(name).size == 100 for name in NAMES[:4])


def test_ahead_goes_on_when_asked_again(corpus: SmallCorpus) -> None:
    """A second request is served after the first one's thread has ended; nothing is done twice."""
    view = corpus.view()
    view.ahead(NAMES[:2])
    _join_verifiers()
    view.ahead(NAMES)
    _join_verifiers()

    assert view.receipt()["verified_shards"] == 6


def test_ahead_raises_where_the_shard_is_needed_when_it_is_damaged(
    corpus: SmallCorpus, capfd: pytest.CaptureFixture[str]
) -> None:
    """The background thread says nothing; who needs the shard gets the refusal, every time."""
    flip(corpus.shard(1))
    view = corpus.view()
    view.ahead(NAMES)
    _join_verifiers()

    assert view.shard(NAMES[0]).size == 100
    for _ in range(2):
        assert "not what was sealed" in _refusal(lambda: view.shard(NAMES[1]))
    assert view.receipt()["verified_shards"] == 5
    assert capfd.readouterr().err == ""


# -- passes and receipt ---------------------------------------------------------------------------


def test_view_refuses_when_planned_tokens_exceed_the_passes(corpus: SmallCorpus) -> None:
    """The pass contract holds before the first token, in tokens that windows really cover."""
    message = _refusal(lambda: corpus.view(planned_tokens=USABLE + 1))

    assert "at most 560 tokens (1 x 560 unique)" in message
    assert "seen 561 tokens (1.00 passes)" in message
    corpus.view(planned_tokens=2 * USABLE, passes=2)


def test_view_refuses_when_the_corpus_has_fewer_unique_tokens(corpus: SmallCorpus) -> None:
    """A bound on unique tokens is a promise that the corpus must be able to keep."""
    assert "at least 561 tokens" in _refusal(lambda: corpus.view(unique_tokens=561))
    message = _refusal(lambda: corpus.view(planned_tokens=401, unique_tokens=200, passes=2))
    assert "at most 400 tokens (2 x 200 unique)" in message


def test_charge_refuses_when_a_shard_is_read_again(corpus: SmallCorpus) -> None:
    """A loader that wraps within one shard is stopped, although the corpus is not used up."""
    view = corpus.view()
    view.charge(NAMES[0], 96)

    message = _refusal(lambda: view.charge(NAMES[0], 16))

    assert "expected at most 96 tokens (1 x 96 unique)" in message
    assert "seen 112 tokens" in message
    assert "shard-00000.npy" in message


def test_charge_refuses_when_a_bounded_corpus_is_used_up(corpus: SmallCorpus) -> None:
    """The total counts, and two passes over half a shard are not one over all of it."""
    view = corpus.view(planned_tokens=96, unique_tokens=48, passes=2)
    view.charge(NAMES[0], 48)
    view.charge(NAMES[0], 48)

    assert view.receipt()["unique_tokens"] == 48
    assert "seen 97 tokens" in _refusal(lambda: view.charge(NAMES[2], 1))


def test_receipt_states_what_was_seen_when_shards_were_used(corpus: SmallCorpus) -> None:
    """The receipt names volume and manifest and counts used, unique and planned tokens."""
    view = corpus.view(planned_tokens=200, passes=2)
    view.shard(NAMES[1])
    view.charge(NAMES[1], 96)
    view.charge(NAMES[1], 32)
    view.charge(NAMES[5], 80)
    volume = json.loads((corpus.volume / layout.VOLUME_IDENTITY).read_text())["id"]

    manifest = Manifest.read(corpus.folder).digest
    assert view.receipt() == {
        "volume": {"id": volume, "workspace": "local"},
        "manifest": manifest,
        "manifests": [manifest],
        "shards": {NAMES[1]: 128, NAMES[5]: 80},
        "unique_tokens": 176,
        "planned_tokens": 200,
        "passes": 2,
        "verified_shards": 1,
    }


def test_view_reloads_before_it_looks_when_opened(corpus: SmallCorpus) -> None:
    """What the platform shows after a reload is what counts."""
    hidden = corpus.volume.with_name("hidden.npy")
    corpus.shard(2).rename(hidden)
    asked: list[Path] = []

    def reload(folder: Path) -> None:
        asked.append(folder)
        hidden.rename(corpus.shard(2))

    assert corpus.view(reload=reload).shard(NAMES[2]).size == 100
    assert asked == [corpus.folder]


def test_view_waits_for_a_clock_that_runs_ahead_when_the_producer_is_elsewhere(
    corpus: SmallCorpus,
) -> None:
    """A heartbeat from far in the future is no sign of life: both ways of drift are bounded."""
    corpus.leave_plan_of(ELSEWHERE, FAR_FUTURE)

    assert "stopped before the end" in _refusal(corpus.view)
