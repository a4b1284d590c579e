"""Receipts tie a working copy to the archive that it deposited into."""

import json
from pathlib import Path

import pytest

from core_parts import CELL, KILLED, body, key_of, killer, python, tree
from quantgrid import layout, receipts
from quantgrid.archive import Deposit
from quantgrid.errors import ArchiveRefusal

ARCHIVE = "a" * 32
KEY = key_of(body("cells"))


def _path(pattern: str = layout.CELL_RECEIPT, of: str = "a") -> str:
    names = {"base": "b", "variant": "v", "trunk": "t", "milestone": 3}
    return pattern.format(**names, fp=body(of=of)["fingerprint"])


def _publish(root: Path, path: str, *, record: str = KEY, archive: str = ARCHIVE) -> None:
    receipts.publish(root / path, Deposit(record, "d" * 64, archive))


def _vouch(root: Path, index: set[str], archive: str | None = ARCHIVE) -> None:
    receipts.vouch(root, index=frozenset(index), archive=archive, address="/the/archive")


@pytest.mark.parametrize(
    "pattern", [layout.TRUNK_RECEIPT, layout.CELL_RECEIPT, layout.EVALUATION_RECEIPT]
)
def test_receipts_are_found_when_published(tmp_path: Path, pattern: str) -> None:
    """Each kind of receipt is found by what it says, relative to the working copy."""
    _publish(tmp_path, _path(pattern))

    assert list(receipts.receipts(tmp_path)) == [
        receipts.Receipt(Path(_path(pattern)), KEY, ARCHIVE)
    ]
    assert json.loads((tmp_path / _path(pattern)).read_bytes())["digest"] == "d" * 64


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", "{}", '{"record": [1], "archive": {}}', '{"record": "r"}']
)
def test_receipts_leave_out_the_unreadable_when_listed(tmp_path: Path, text: str) -> None:
    """What was never published as a receipt neither stops a plan nor counts."""
    path = tmp_path / _path()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (path.parent / "folder.json").mkdir()

    assert list(receipts.receipts(tmp_path)) == []
    _vouch(tmp_path, set())


def test_receipts_of_a_corpus_stay_out_when_listed(tmp_path: Path) -> None:
    """Sentinels name no record of an archive."""
    _publish(tmp_path, layout.SENTINEL.format(corpus="c", fp="0" * 64))

    assert list(receipts.receipts(tmp_path)) == []


def test_vouch_says_nothing_when_the_archive_has_all(tmp_path: Path) -> None:
    """An archive may hold more than this working copy deposited; and a fresh copy asks nothing."""
    _vouch(tmp_path, set(), archive=None)
    _publish(tmp_path, _path())
    _vouch(tmp_path, {KEY, key_of(body("cells", of="b"))})


@pytest.mark.parametrize(
    ("archive", "index", "seen"),
    [
        ("b" * 32, {KEY}, "seen archive " + "b" * 32),
        (None, set(), "seen an empty place"),
        (None, {KEY}, "seen 1 record without archive.json"),
    ],
)
def test_vouch_refuses_when_it_is_another_archive(
    tmp_path: Path, archive: str | None, index: set[str], seen: str
) -> None:
    """Receipts of another archive stop the plan, with both identities and the place."""
    _publish(tmp_path, _path())

    with pytest.raises(ArchiveRefusal) as caught:
        _vouch(tmp_path, index, archive)
    assert f"expected archive {ARCHIVE} (1 receipt); {seen} (/the/archive)" in str(caught.value)
    assert "lost" not in str(caught.value)  # nobody knows that of a place that is empty


def test_vouch_refuses_when_records_are_lost(tmp_path: Path) -> None:
    """A record that is gone is never made again in silence: it is named, with the numbers."""
    _publish(tmp_path, _path())
    _publish(tmp_path, _path(of="b"), record=key_of(body("cells", of="b")))

    with pytest.raises(ArchiveRefusal) as caught:
        _vouch(tmp_path, {KEY})
    assert "lost 1 record" in str(caught.value)
    assert key_of(body("cells", of="b")) in str(caught.value)
    assert "seen 1 of 2 deposited records" in str(caught.value)


def test_forget_removes_only_what_it_was_given_when_called(tmp_path: Path) -> None:
    """Giving up one receipt leaves the others; one that is gone already is no error."""
    _publish(tmp_path, _path())
    _publish(tmp_path, _path(of="b"))
    first, second = sorted(receipts.receipts(tmp_path), key=lambda each: str(each.path))

    receipts.forget(tmp_path, [first, first])

    assert list(receipts.receipts(tmp_path)) == [second]


def test_receipt_is_whole_or_absent_when_its_writer_is_killed(tmp_path: Path) -> None:
    """SIGKILL before the rename leaves no receipt, so that Snakemake asks again."""
    text = (
        "from pathlib import Path; from quantgrid import receipts; "
        f"from quantgrid.archive import Deposit; "
        f"receipts.publish(Path({_path()!r}), Deposit({CELL!r}, 'd', 'a'))"
    )
    copy = tmp_path / "copy"
    copy.mkdir()

    code, _ = python(text, cwd=copy, KILL_AT="runner:1", **killer(tmp_path / "k"))

    assert code == KILLED
    assert not (copy / _path()).exists()
    assert list(receipts.receipts(copy)) == []
    assert len(tree(copy)) == 1
