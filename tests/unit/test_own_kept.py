"""A program's checkpoint is kept whole, or not at all."""

import errno
import json
from pathlib import Path

import pytest

from own_parts import BOUND_S, COUNTS, OwnDesk, wait_until
from quantgrid.fingerprint import digest
from quantgrid.own_stage import kept as kept_module
from quantgrid.own_stage.kept import GENERATIONS, Copy, Keeper, Kept
from quantgrid.own_stage.open_files import held_still, is_written

FINGERPRINT = digest("mine")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Where a program saves."""
    return tmp_path / "work" / "ckpt.json"


@pytest.fixture
def kept(tmp_path: Path, checkpoint: Path) -> Kept:
    """Nothing is kept yet."""
    checkpoint.parent.mkdir()
    return Kept(tmp_path / "state", FINGERPRINT)


@pytest.fixture
def keeper(kept: Kept, checkpoint: Path) -> Keeper:
    """Looks at one file."""
    return Keeper(
        kept,
        lambda: {"ckpt.json": checkpoint} if checkpoint.exists() else {},
        lambda *_: None,
    )


def content(copy: Copy | None) -> str:
    """What was kept."""
    assert copy is not None
    return (copy.folder / "ckpt.json").read_text()


def test_checkpoint_is_not_kept_when_it_is_open_for_writing(
    kept: Kept, keeper: Keeper, checkpoint: Path
) -> None:
    """A part of a save is no checkpoint, however long the program takes for the rest."""
    with checkpoint.open("w") as file:
        file.write("[3, [")
        file.flush()
        assert is_written([checkpoint])
        for _ in range(3):
            keeper.look()
        assert kept.newest() is None
        file.write("1]]")

    keeper.look()

    assert json.loads(content(kept.newest())) == [3, [1]]


def test_old_checkpoint_stays_when_the_next_is_half_written(
    kept: Kept, keeper: Keeper, checkpoint: Path
) -> None:
    """The kill that comes now finds the one before."""
    checkpoint.write_text("1")
    keeper.look()
    with checkpoint.open("w") as file:
        file.write("2 and a")
        file.flush()
        keeper.look()

        assert content(kept.newest()) == "1"


def test_last_checkpoints_are_kept_when_there_are_many(
    kept: Kept, keeper: Keeper, checkpoint: Path
) -> None:
    """Two of them, and a number is never used again."""
    for text in ("a", "bb", "ccc", "dddd"):
        checkpoint.write_text(text)
        keeper.look()

    newest = kept.newest()
    assert content(newest) == "dddd"
    assert newest is not None
    assert len(list(newest.folder.parent.iterdir())) == GENERATIONS
    kept.drop(newest)
    assert content(kept.newest()) == "ccc"


def test_checkpoint_of_another_fingerprint_is_removed_when_looked_at(
    kept: Kept, keeper: Keeper, checkpoint: Path, tmp_path: Path
) -> None:
    """Nobody goes on from the state of another cell."""
    checkpoint.write_text("a")
    keeper.look()

    other = Kept(tmp_path / "state", digest("other"))

    assert other.newest() is None
    assert Kept(tmp_path / "state", FINGERPRINT).newest() is None


def test_program_goes_on_when_the_disk_is_full(
    kept: Kept,
    keeper: Keeper,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last checkpoint stays, a person is told once, and the next one is kept again."""
    checkpoint.write_text("a")
    keeper.look()

    def full(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True)
        target.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(kept_module, "copy_file", full)
        checkpoint.write_text("bb")
        keeper.look()
        keeper.look()
    assert content(kept.newest()) == "a"
    assert capsys.readouterr().err.count("could not be kept") == 1
    keeper.look()

    assert content(kept.newest()) == "bb"


def test_files_are_not_still_when_one_is_gone(tmp_path: Path) -> None:
    """A file that was replaced this moment is looked at again."""
    with held_still([tmp_path / "gone"]) as held:
        assert not held.is_still


def _replace(path: Path, text: str) -> None:
    """Save as careful programs do."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize("names", [("ckpt.json",), ("ckpt.json", "opt.json")])
def test_checkpoint_is_kept_when_the_next_save_begins_meanwhile(
    tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """A program that saves all the time leaves no moment of rest, and needs none for its copy."""
    files = {name: tmp_path / "work" / name for name in names}
    keeper = Keeper(kept, lambda: {n: p for n, p in files.items() if p.exists()}, lambda *_: None)
    for path in files.values():
        path.write_text("1")
    copy_file = kept_module.copy_file

    def while_it_saves(source: Path, target: Path) -> None:
        for path in files.values():
            _replace(path, "2, and longer")
        copy_file(source, target)

    monkeypatch.setattr(kept_module, "copy_file", while_it_saves)
    wait_until(lambda: (keeper.look() and keeper.saves) or keeper.saves, "one copy")

    newest = kept.newest()
    assert newest is not None
    assert {(newest.folder / name).read_text() for name in names} == {"1"}


def test_several_files_are_not_kept_while_they_change(tmp_path: Path, kept: Kept) -> None:
    """Half of one save and half of the next are no checkpoint; the next look comes soon."""
    files = {name: tmp_path / "work" / name for name in ("ckpt.json", "opt.json")}
    for path in files.values():
        path.write_text("0")
    keeper = Keeper(kept, lambda: files, lambda *_: None)

    for number in range(1, 20):
        files["ckpt.json"].write_text(f"{'x' * number}")
        assert keeper.look()

    assert keeper.saves == 0
    wait_until(lambda: not keeper.look(), "a rest")
    assert keeper.saves == 1


TORN = """
import json, os, signal, sys, time
if os.path.exists("ckpt.json"):
    json.dump({"loss": json.load(open("ckpt.json"))}, open("result.json", "w"))
    sys.exit()
with open("ckpt.json", "w") as file:
    json.dump(7.0, file)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
file = open("ckpt.json", "w")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_checkpoint_is_not_kept_when_the_program_was_killed_in_its_save(tmp_path: Path) -> None:
    """Its death closes the file too; what nobody writes to any more is not whole for that."""
    go = tmp_path / "go"
    desk = OwnDesk.lay(tmp_path, TORN, {"arguments": str(go), "resume": {"files": ["ckpt.json"]}})
    first = desk.start(desk.job())
    wait_until(desk.kept, "a checkpoint")
    go.touch()
    said, _ = first.communicate(timeout=BOUND_S)
    assert first.returncode != 0

    code, text = desk.run()

    assert code == 0, said + text
    assert "going on from checkpoint" in text
    assert desk.record()["results"] == {"loss": 7.0}


def test_links_follow_each_other_when_the_cap_of_the_platform_ends_them(tmp_path: Path) -> None:
    """A program that knows no cap is ended by it, resumed, and its record lists every link."""
    desk = OwnDesk.lay(tmp_path, COUNTS, {"arguments": "130", "resume": {"files": ["ckpt.json"]}})

    code, text = desk.run(None, ("--cap-s", "5", "--grace-s", "0.5", "--chains"))

    assert code == 0, text
    record = desk.record()
    ends = [link["end"] for link in record["links"]]
    assert len(ends) >= 2
    assert set(ends[:-1]) == {"cap"}
    assert ends[-1] == "done"
    assert record["results"] == {"loss": sum(i * 7919 % 101 for i in range(1, 131)), "steps": 130}
    assert text.count("going on from checkpoint") == len(ends) - 1
    assert record["counters"] == {"links": len(ends), "interruptions": 0, "failures": 0}
