"""A failure that would come again is paid for once, in whichever clone it happened."""

from pathlib import Path

import pytest

from core_parts import CELL, MAKE, Desk, job_of, stage
from quantgrid import failures, layout
from quantgrid.diagnosis import Diagnosis
from quantgrid.errors import ConfigRefusal, CorpusRefusal, FailureClass, PlatformFault, Refusal
from quantgrid.main import dispatch
from quantgrid.remembered import Remembered
from quantgrid.store.folder import FolderStore
from working_copy import PROJECT

WEIGHTS = stage("quantise", "weights")
JOB = job_of(WEIGHTS)
OWNED = (CELL, "quantise", WEIGHTS.fingerprint)
KEY = layout.failure_file(*OWNED)


class Silent(FolderStore):
    """A store that nobody can write to."""

    def put_once(self, key: str, data: bytes) -> bool:
        """Nothing is put."""
        raise PlatformFault("the store does not answer", seen=f"{len(data)} bytes", where=key)


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Desk, Desk]:
    """Two working copies; the script of the first one fails."""
    first = Desk.lay(tmp_path / "first", quantise="{}['lost']")
    second = Desk.lay(tmp_path / "second", quantise=MAKE)
    return first, second


def memory(desk: Desk, archive: Path) -> Remembered:
    """What a clone knows."""
    return Remembered(desk.root, FolderStore(archive))


def test_failure_is_refused_in_another_clone_until_it_is_retried(
    clones: tuple[Desk, Desk], tmp_path: Path
) -> None:
    """The second clone names error, host and way on, and pays nothing; `retry` there frees both."""
    first, second = clones
    archive = str(tmp_path / "archive")
    assert first.call(JOB, archive=archive)[0] == 70

    code, said = second.call(JOB, archive=archive)

    assert code == 78
    assert said.startswith(f"refused: {CELL} failed before and would fail again (code): ")
    assert "KeyError: 'lost'" in said
    assert list(failures.all_of(second.root)) == []
    theirs = memory(second, tmp_path / "archive")
    assert theirs.fingerprints([OWNED]) == {WEIGHTS.fingerprint}
    assert theirs.fingerprints([(CELL, "quantise", "f" * 64)]) == set()
    assert [each["cell"] for each in theirs.all_of()] == [CELL]
    theirs.forget(*OWNED)
    assert second.call(JOB, archive=archive)[0] == 0
    assert memory(first, tmp_path / "archive").find(*OWNED) is not None  # its own, until it retries


def test_failure_that_may_pass_is_told_to_nobody(tmp_path: Path) -> None:
    """A full disk of one clone is no reason for another one."""
    desk = Desk.lay(tmp_path / "first", quantise="raise MemoryError")
    assert desk.call(JOB, archive=str(tmp_path / "archive"))[0] == 71

    assert list(FolderStore(tmp_path / "archive").list(layout.FAILURES)) == []
    assert [each["kind"] for each in failures.all_of(desk.root)] == ["host memory"]


def test_failure_is_kept_here_when_the_store_does_not_answer(tmp_path: Path) -> None:
    """The error of the script is what a person must see, not that of the store."""
    failure = {"schema": failures.SCHEMA, "version": 1, "class": "code", "is_remembered": True}
    failure |= {"cell": CELL, "stage": "quantise", "fingerprint": WEIGHTS.fingerprint}

    Remembered(tmp_path, Silent(tmp_path / "archive")).keep(failure)

    assert failures.remembered(tmp_path) == {WEIGHTS.fingerprint}


@pytest.mark.parametrize("damage", ["", "{", "7", '{"schema": "quantgrid/failure"}'])
def test_failure_is_not_remembered_when_what_was_told_is_damaged(
    clones: tuple[Desk, Desk], tmp_path: Path, damage: str
) -> None:
    """A torn memory must not stop a cell of anybody."""
    _, second = clones
    FolderStore(tmp_path / "archive").put_once(KEY, damage.encode())

    assert memory(second, tmp_path / "archive").find(*OWNED) is None
    assert list(memory(second, tmp_path / "archive").all_of()) == []
    memory(second, tmp_path / "archive").refuse(*OWNED)


def test_remembered_refusal_is_told_in_one_sentence(tmp_path: Path) -> None:
    """What it refused, once; then its own mend, and only then the command that tries again."""
    refusal = CorpusRefusal(
        "a shard is short", expected="8 bytes", seen="7", where="volume/x", do="Make it again."
    )
    facts = {"cell": CELL, "stage": "quantise", "fingerprint": WEIGHTS.fingerprint, "host": "desk"}
    facts |= {"when": "2026-11-30T12:00:00Z", "log": "logs/a.log"}
    clone = Remembered(tmp_path, FolderStore(tmp_path / "archive"))
    clone.keep(failures.failure_of(Diagnosis.of(refusal), **facts))

    with pytest.raises(Refusal) as caught:
        clone.refuse(*OWNED)

    assert str(caught.value) == (
        f"refused: {CELL} failed before and would fail again (refusal): a shard is short; "
        "seen refusal in stage quantise, 2026-11-30T12:00:00Z on desk (logs/a.log). "
        f"Make it again. Then `quantgrid retry {CELL}` lets it be tried again; "
        f"`quantgrid why {CELL}` tells more."
    )


def test_retry_names_what_there_is_when_it_is_misspelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells as they are typed, and classes as failures have them."""
    monkeypatch.chdir(tmp_path)
    told = Diagnosis("import", FailureClass.CODE, "ImportError", "no module", ())
    for cell in ("a0/none", "b0/none"):  # each with its own fingerprint
        facts = {"cell": cell, "stage": "qat", "fingerprint": cell[0] * 64}
        failures.keep(tmp_path, failures.failure_of(told, **facts))
    options = ["--root", str(PROJECT), "--archive", str(tmp_path / "archive")]

    with pytest.raises(ConfigRefusal, match="expected a0/none, b0/none"):
        dispatch(["retry", "c0/none", *options])
    with pytest.raises(SystemExit):
        dispatch(["retry", "--class", "cod", *options])

    assert "invalid choice: 'cod'" in capsys.readouterr().err
