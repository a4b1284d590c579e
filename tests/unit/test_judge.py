"""The judge asks a record again what every guard before it should have asked."""

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core_parts import CLOCK, archive_in, key_of, put
from quantgrid import judging, layout, ledger, verdicts
from quantgrid.archive import Archive
from quantgrid.archive.record import sealed
from quantgrid.errors import ArchiveRefusal, ConfigRefusal, DataFault
from quantgrid.judge import judge
from quantgrid.main import dispatch
from report_records import demo_records
from working_copy import PROJECT

Record = dict[str, Any]
BASE = "n0-t400k-s0/none"
_FORM = "n0-t400k-s0/rtn-w4row-noclip"
CURVE = [[40 * n, 81_920 * n, 2.0 / n, 0.01, 2.0 / n, 0.02] for n in range(1, 12)]


@pytest.fixture(scope="module")
def healthy() -> Record:
    """A base that one pass over verified shards made."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    record = records[BASE]
    manifest = record["corpus"]["manifest"]
    receipt = {
        "volume": record["receipt"]["volume"],
        "manifest": manifest,
        "manifests": [manifest],
        "shards": {"shard-00000.npy": 300_000, "shard-00001.npy": 20_000},
        "unique_tokens": 320_000,
        "planned_tokens": 320_000,
        "passes": 1,
        "verified_shards": 2,
    }
    record["weights"] |= {"receipt": receipt, "stage": "cooldown"}
    watched = {"passes": 1, "curve": CURVE, "findings": []}
    record["weights"]["results"]["watch"] = watched
    return {**record, "verdict": None}


def test_judge_says_valid_when_all_answers_are_good(healthy: Record) -> None:
    """Every question was asked and the evidence says what was seen."""
    judgement = judge(sealed(healthy))

    asked = {each.question for each in judgement.evidence}
    assert (judgement.word, judgement.reason) == ("VALID", "")
    assert asked >= {"finite numbers", "declared passes", "one corpus in all stages", "gap", "rise"}


def _over(record: Record) -> None:
    record["weights"]["receipt"]["shards"] = {"shard-00000.npy": 30 * 320_000}


def _unverified(record: Record) -> None:
    record["weights"]["receipt"]["verified_shards"] = 1


def _other_corpus(record: Record) -> None:
    record["weights"]["receipt"]["manifest"] = "0" * 64


def _other_corpus_before(record: Record) -> None:
    record["weights"]["receipt"]["manifests"] = ["0" * 64, record["corpus"]["manifest"]]


def _other_mean(record: Record) -> None:
    record["results"]["loss"] += 0.01


def _gap(record: Record) -> None:
    curve = record["weights"]["results"]["watch"]["curve"]
    for number, each in enumerate(curve):
        each[2] -= 0.02 * number


def _gap_where_passes_are_declared(record: Record) -> None:
    record["spec"]["cell"]["trunk"]["passes"] = 4
    _gap(record)


def _rise(record: Record) -> None:
    curve = record["weights"]["results"]["watch"]["curve"]
    losses = [2.0, 1.8, 1.7, 1.6, 1.5, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1, 2.2]
    curve[:] = [[40 * n, 9 * n, x, 0.01, x, 0.02] for n, x in enumerate(losses)]


def _recorded_spike(record: Record) -> None:
    finding = ["spike", 80, 9, "at most 2 nats", "9 nats"]
    record["weights"]["results"]["watch"]["findings"] = [finding]


def _guessing(record: Record) -> None:
    validation = record["results"]["validation"]
    validation["losses"] = [9.0] * validation["sequences"]
    record["results"]["loss"] = 9.0


@pytest.mark.parametrize(
    ("spoil", "word", "question"),
    [
        (_over, "INVALID", "declared passes"),
        (_unverified, "INVALID", "shards verified before use"),
        (_other_corpus, "INVALID", "one corpus in all stages"),
        (_other_corpus_before, "INVALID", "one corpus in all stages"),
        (_other_mean, "INVALID", "loss is the mean of its sequences"),
        (_gap, "INVALID", "gap"),
        (_gap_where_passes_are_declared, "SUSPECT", "gap"),
        (_rise, "SUSPECT", "rise"),
        (_recorded_spike, "SUSPECT", "spike"),
        (_guessing, "SUSPECT", "better than guessing"),
    ],
)
def test_judge_doubts_a_record_when_one_answer_is_bad(
    healthy: Record, spoil: Callable[[Record], None], word: str, question: str
) -> None:
    """One spoilt field changes the word, and the reason names the question."""
    record = copy.deepcopy(healthy)
    spoil(record)

    judgement = judge(sealed(record))

    assert judgement.word == word
    assert judgement.reason.startswith(f"{question}: ")


def test_judge_asks_only_what_a_record_can_answer() -> None:
    """A program of its own has no receipt, curve or model: its numbers are finite, no more."""
    record = {"results": {"score": 1.0}, "spec": {"cell": {"axes": {}}}, "receipt": None}

    judgement = judge(record)

    assert [each.question for each in judgement.evidence] == ["finite numbers"]


# -- verdicts -------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path, healthy: Record, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working copy with one archived, folded cell; it is the current folder."""
    root = tmp_path / "copy"
    body = {**healthy, "blobs": {}}
    put(archive_in(root), tmp_path / "out", body)
    monkeypatch.chdir(root)
    _call("fold", key_of(body), "--archive", "archive", "--out", f"results/{BASE}/result.json")
    return root


def _call(*arguments: str) -> None:
    assert dispatch(list(arguments)) == 0


def _newest(root: Path) -> verdicts.Verdict:
    (record,) = judging.results(root)
    found = verdicts.find_newest(archive_in(root), record)
    assert found is not None
    assert found == verdicts.find_local(root / "results" / BASE / "result.json", record)
    return found


def _keys(root: Path) -> list[str]:
    return [key.rpartition("/")[2] for key in verdicts.all_in(archive_in(root).store)]


def test_rejection_counts_when_a_judge_was_content(copied: Path) -> None:
    """A person's word is appended, shown here and in the ledger, and no judge overrules it."""
    assert _newest(copied)["verdict"] == "VALID"
    options = ("--root", str(PROJECT), "--archive", str(copied / "archive"))

    _call("reject", BASE, "--reason", "wrong optimiser", "--by", "ann", *options)
    _call("judge", *options)

    newest = _newest(copied)
    assert (newest["verdict"], newest["reason"]) == ("INVALID", "wrong optimiser")
    assert newest["by"] == {"person": "ann"}
    assert _keys(copied) == ["000000.json", "000001.json"]
    ((_, row),) = ledger.read(copied / layout.LEDGER).items()
    assert row["verdict"] == "INVALID"


@pytest.mark.parametrize("named", [(), (_FORM,)])
def test_judge_counts_a_form_as_its_base_when_that_was_rejected(
    copied: Path,
    tmp_path: Path,
    healthy: Record,
    capsys: pytest.CaptureFixture[str],
    named: tuple[str, ...],
) -> None:
    """By the rule of table and page, also when the form alone was named."""
    body = {**healthy, "cell": _FORM, "blobs": {}}
    put(archive_in(copied), tmp_path / "out", body)
    _call("fold", key_of(body), "--archive", "archive", "--out", f"results/{_FORM}/result.json")
    options = ("--root", str(PROJECT), "--archive", str(copied / "archive"))
    _call("reject", BASE, "--reason", "wrong optimiser", "--by", "ann", *options)
    capsys.readouterr()

    _call("judge", *named, *options)

    said = capsys.readouterr().out
    assert f"INVALID  {_FORM}  its base is INVALID: wrong optimiser\n" in said
    assert said.endswith(f"0 VALID, 0 SUSPECT, {1 if named else 2} INVALID\n")


def test_judge_appends_when_an_older_version_judged(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later judge judges again; the earlier verdict stays where it is; the same does not."""
    options = ("judge", "--root", str(PROJECT), "--archive", str(copied / "archive"))
    _call(*options)
    assert _keys(copied) == ["000000.json"]

    monkeypatch.setattr("quantgrid.judge.VERSION", 2)
    _call(*options)

    assert _keys(copied) == ["000000.json", "000001.json"]
    assert _newest(copied)["by"] == {"judge": 2}


def test_verdict_is_refused_when_its_bytes_changed(copied: Path) -> None:
    """A verdict that was tampered with is named; nothing goes by it."""
    path = copied / "results" / BASE / "verdict.json"
    told = json.loads(path.read_bytes())
    path.write_text(json.dumps({**told, "verdict": "SUSPECT"}))

    (record,) = judging.results(copied)
    with pytest.raises(DataFault, match="a verdict is damaged"):
        verdicts.find_local(path.with_name("result.json"), record)


def test_verdict_counts_for_nothing_when_it_is_on_another_record(copied: Path) -> None:
    """A result that was made again is not judged by what was said of the one before."""
    (record,) = judging.results(copied)

    assert verdicts.find_newest(archive_in(copied), {**record, "digest": "0" * 64}) is None


def test_rejection_counts_when_a_judge_spoke_after_it(copied: Path, tmp_path: Path) -> None:
    """A judge that looked before, in this archive or in another one that is read as well."""
    (record,) = judging.results(copied)
    archive, other = archive_in(copied), archive_in(tmp_path / "other")
    judging.rejected(archive, record, CLOCK, by="ann", reason="half there")
    later = {"reason": "", "by": {"judge": 99}, "at": "2999-01-01T00:00:00Z"}
    for each in (archive, other):
        verdicts.append(each, verdicts.sealed(record, verdicts.Word.VALID, **later))

    found = verdicts.find_newest(Archive(archive.store, [other.store]), record)

    assert found is not None
    assert found["reason"] == "half there"


def test_rejection_reaches_the_table_when_a_clock_was_ahead(copied: Path) -> None:
    """Snakemake makes nothing anew that is newer than what it is made from; others stay."""
    names = {name: copied / layout.TABLE.format(grid=name) for name in ("ahead", "demo")}
    page = copied / layout.PAGE.format(grid="ahead")
    for path in (*names.values(), page):
        path.touch()
    for path in (names["ahead"], page):
        os.utime(path, (4e9, 4e9))

    options = ("--root", str(PROJECT), "--archive", str(copied / "archive"))
    _call("reject", BASE, "--reason", "wrong optimiser", "--by", "ann", *options)

    assert not names["ahead"].exists()
    assert not page.exists()
    assert names["demo"].exists()


def test_verdicts_are_copied_when_an_archive_is(copied: Path, tmp_path: Path) -> None:
    """A rejection goes where the record goes."""
    target = archive_in(tmp_path / "other")

    assert verdicts.copy(archive_in(copied), target) == 1
    assert verdicts.copy(archive_in(copied), target) == 0
    assert verdicts.all_in(target.store) == verdicts.all_in(archive_in(copied).store)


def test_verdict_is_kept_here_when_the_archive_cannot_be_written(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder for incoming files that is a file: folding goes on, and says so."""
    (record,) = judging.results(copied)
    archive = archive_in(copied)
    shutil.rmtree(copied / "archive" / "verdicts")
    shutil.rmtree(copied / "archive" / layout.INCOMING, ignore_errors=True)
    (copied / "archive" / layout.INCOMING).write_bytes(b"")

    made = judging.judged(archive, record, CLOCK)

    assert made["verdict"]["verdict"] == "VALID"
    assert "kept here alone" in capsys.readouterr().err


def test_rejection_is_refused_when_it_has_no_reason_or_no_result(copied: Path) -> None:
    """A rejection without a reason helps nobody; one of a cell that is not here is a typo."""
    options = ["--root", str(PROJECT), "--archive", str(copied / "archive")]
    with pytest.raises(ConfigRefusal, match="needs a reason"):
        dispatch(["reject", BASE, "--reason", " ", *options])
    with pytest.raises(ConfigRefusal, match="no result here"):
        dispatch(["reject", "n0/none", "--reason", "x", *options])


_OTHER = "n0-t400k-s0/rtn-w4row-noclip"


def test_rejection_is_none_at_all_when_one_of_its_cells_has_no_result(copied: Path) -> None:
    """What the archive keeps for ever is not half of what was asked for: nothing was appended."""
    options = ["--reason", "x", "--by", "ann", "--root", str(PROJECT), "--archive", "archive"]

    with pytest.raises(ConfigRefusal, match="has no result here"):
        dispatch(["reject", BASE, _OTHER, *options])
    (copied / layout.LEDGER).write_text("<<<<<<< HEAD\n")
    with pytest.raises(DataFault, match="the ledger cannot be read"):
        dispatch(["reject", BASE, *options])

    assert _keys(copied) == ["000000.json"]


def test_rejection_is_refused_when_the_result_is_of_another_cell(copied: Path) -> None:
    """A result that somebody copied into another folder: the cell it is of is not rejected."""
    wrong = copied / "results" / _OTHER / "result.json"
    wrong.parent.mkdir(parents=True)
    shutil.copy(copied / "results" / BASE / "result.json", wrong)

    with pytest.raises(DataFault, match="that of another cell; expected n0-t400k-s0/rtn"):
        list(judging.results(copied, [_OTHER]))


def test_rejection_is_one_line_of_text_when_it_was_typed_as_something_else(copied: Path) -> None:
    """Half a letter, told for ever, would let every later table and page fail."""
    options = ["--root", str(PROJECT), "--archive", "archive"]

    with pytest.raises(ConfigRefusal, match="at most 500 letters; seen 501"):
        dispatch(["reject", BASE, "--reason", "x" * 501, "--by", "ann", *options])
    with pytest.raises(ConfigRefusal, match="is no text"):
        dispatch(["reject", BASE, "--reason", "gr\udcfcn", "--by", "ann", *options])
    with pytest.raises(ConfigRefusal, match="is no text"):
        dispatch(["reject", BASE, "--reason", "x", "--by", "J\udcfcrgen", *options])
    _call(
        "reject", BASE, "--reason", " gr\udcc3\udcbcn\n and\x1b[31m red ", "--by", "ann", *options
    )

    assert _keys(copied) == ["000000.json", "000001.json"]
    assert _newest(copied)["reason"] == "grün and [31m red"


def test_rejection_is_refused_when_the_result_is_none_of_the_named_grid(copied: Path) -> None:
    """`--grid` is typed all day: it is held, and the cell of another grid stays as it is."""
    options = ("--reason", "x", "--by", "ann", "--root", str(PROJECT), "--archive", "archive")

    with pytest.raises(ConfigRefusal, match=f"{BASE} here is none of grid smoke"):
        dispatch(["reject", BASE, "--grid", "smoke", *options])
    assert _keys(copied) == ["000000.json"]


def test_rejection_asks_for_a_name_when_the_system_knows_none(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container a user may be nothing but a number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_242_424)

    with pytest.raises(ConfigRefusal, match="Give --by NAME"):
        dispatch(["reject", BASE, "--reason", "x", "--root", str(PROJECT), "--archive", "archive"])
    assert _keys(copied) == ["000000.json"]


@pytest.mark.parametrize("command", [("reject", BASE, "--reason", "x", "--by", "ann"), ("judge",)])
def test_nothing_is_judged_when_the_archive_is_not_mounted(
    copied: Path, command: tuple[str, ...]
) -> None:
    """An empty folder in its place keeps no verdict: once it is back, nobody would see it."""
    (copied / "archive").rename(copied / "elsewhere")

    with pytest.raises(ArchiveRefusal, match="lacks the record of n0-t400k-s0/none"):
        dispatch([*command, "--root", str(PROJECT), "--archive", "archive"])

    assert not (copied / "archive" / "verdicts").exists()
