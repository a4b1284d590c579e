"""The keeper resumes, saves in the background, survives a full disk and leaves in time."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import interrupted
from checkpoint_parts import Count, HandClock
from quantgrid.cell import Cell
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.errors import Checkpointed, PlatformFault


def _keeper(
    cell: Cell, state: Count | None = None, clock: HandClock | None = None, **changes: Any
) -> Keeper:
    return Keeper(cell, state or Count(), manifest="m" * 64, clock=clock or HandClock(), **changes)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell whose state is kept in a folder of the test."""
    made: Cell = interrupted.cell(tmp_path)
    return made


def _told(cell: Cell) -> dict[str, Any]:
    assert cell.link
    told: dict[str, Any] = json.loads(cell.link.read_bytes())
    return told


def _saved(cell: Cell, tokens: int, watch: object = None) -> None:
    with _keeper(cell, Count(tokens)) as keeper:
        keeper.watch = watch
        keeper.keep()


def test_keeper_goes_on_when_there_is_a_state(cell: Cell) -> None:
    """Tokens and what a watch left come back, and the result tells from where."""
    _saved(cell, 320, {"mean": 1.5})
    state = Count()

    with _keeper(cell, state) as keeper:
        assert keeper.resume()

    assert (state.tokens, keeper.watch) == (320, {"mean": 1.5})
    told = {"resumed_tokens": 320, "saves": 0, "save_s": 0.0, "stall_s": 0.0, "notes": []}
    assert keeper.chain() == told


def test_keeper_starts_over_when_there_is_none(cell: Cell) -> None:
    """Nothing kept is no trouble."""
    with _keeper(cell) as keeper:
        assert not keeper.resume()
    assert keeper.chain()["resumed_tokens"] == 0


def test_keeper_says_it_when_the_newest_is_damaged(
    cell: Cell, capsys: pytest.CaptureFixture[str]
) -> None:
    """One loud line, and a note in the result."""
    _saved(cell, 320)
    _saved(cell, 640)
    sorted(cell.state.iterdir())[-1].write_bytes(b"half")

    with _keeper(cell) as keeper:
        keeper.resume()

    (note,) = keeper.chain()["notes"]
    assert note.endswith("; going on from 320 tokens")
    assert f"warning: {note}\n" in capsys.readouterr().err


def test_keeper_is_due_by_the_clock_and_tells_the_runner(cell: Cell) -> None:
    """10 MB are presumed to cost 0.01 s: due after a second and three steps; then it is told."""
    clock, state = HandClock(), Count()
    with _keeper(cell, state, clock) as keeper:
        due = []
        for _ in range(4):
            clock.seconds += 0.4
            state.tokens += 32
            due.append(keeper.is_due())
            if due[-1]:
                keeper.keep()

    assert due == [False, False, True, False]
    told = _told(cell)
    assert (told["tokens"], told["saves"]) == (96, 1)
    assert (cell.state / told["checkpoint"]).exists()
    assert keeper.chain()["saves"] == 1


def _leave(keeper: Keeper, state: Count, *, tokens: int = 32) -> None:
    """Take a step, and leave after it."""
    with keeper:
        state.tokens += tokens
        os.kill(os.getpid(), signal.SIGTERM)
        assert keeper.is_due()
        keeper.keep()


def test_keeper_leaves_with_a_state_when_a_signal_came(cell: Cell) -> None:
    """SIGTERM: due at once, the state is on disk when the exception for exit code 75 comes."""
    state = Count()
    with pytest.raises(Checkpointed, match="SIGTERM came; the state after 32 tokens"):
        _leave(_keeper(cell, state), state)

    assert _told(cell)["tokens"] == 32


def test_keeper_leaves_when_a_signal_came_after_the_last_step(cell: Cell) -> None:
    """No request is lost between the loop and the end of the block."""
    with pytest.raises(Checkpointed), _keeper(cell, Count(32)):
        os.kill(os.getpid(), signal.SIGINT)

    assert _told(cell)["tokens"] == 32


def test_keeper_writes_nothing_twice_when_it_leaves_at_a_kept_step(cell: Cell) -> None:
    """What is on disk already is not written again."""
    state = Count(32)
    keeper = _keeper(cell, state)
    keeper.keep()
    with pytest.raises(Checkpointed):
        _leave(keeper, state, tokens=0)

    assert _told(cell)["saves"] == 1


def _work(keeper: Keeper, clock: HandClock, state: Count) -> None:
    """Sixty steps of a second."""
    with keeper:
        for _ in range(60):
            clock.seconds += 1.0
            state.tokens += 32
            if keeper.is_due():
                keeper.keep()


def test_keeper_leaves_before_its_time_ends(cell: Cell) -> None:
    """Steps of 1 s and a grace of 30 s: it stops by its own clock 2.5 s and two saves early."""
    clock, state = HandClock(), Count(size_bytes=0)
    keeper = _keeper(cell._replace(deadline_s=60.0), state, clock)
    with pytest.raises(Checkpointed, match="its time ends in"):
        _work(keeper, clock, state)

    assert state.tokens == 58 * 32


def _fill(cell: Cell) -> None:
    """Nothing can be written any more: a file stands where the folder has to be."""
    cell.state.rename(cell.state.with_name("aside"))
    cell.state.touch()


def _empty(cell: Cell) -> None:
    cell.state.unlink()
    cell.state.with_name("aside").rename(cell.state)


def test_keeper_goes_on_when_a_save_fails(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    """Told once, however often; saved again when there is room; the old state is whole."""
    _saved(cell, 32)
    state = Count(64)
    with _keeper(cell, state) as keeper:
        _fill(cell)
        for _ in range(3):
            keeper.keep()
            state.tokens += 32
        keeper.is_due()
        _wait(keeper)
        _empty(cell)
        keeper.keep()

    assert capsys.readouterr().err.count("could not be written") == 1
    assert len(keeper.chain()["notes"]) == 1
    assert (_told(cell)["tokens"], keeper.chain()["saves"]) == (160, 1)


def _wait(keeper: Keeper) -> None:
    keeper._account(keeper._writer.join())


def test_keeper_says_that_the_state_is_lost_when_it_leaves_a_full_disk(cell: Cell) -> None:
    """A fault of the platform, not exit code 75: nobody shall believe that the step is kept."""
    _saved(cell, 32)
    state = Count()
    keeper = _keeper(cell, state)
    keeper.resume()
    _fill(cell)

    with pytest.raises(PlatformFault, match="goes on from 32 tokens"):
        _leave(keeper, state)


def test_keeper_raises_what_is_no_trouble_of_the_machine(cell: Cell) -> None:
    """A defect in the thread is not swallowed."""

    class Broken(Count):
        def snapshot(self, _: object) -> Any:
            return ["not bytes"]

    with pytest.raises(TypeError), _keeper(cell, Broken(1)) as keeper:
        keeper.keep()


def test_keeper_finishes_its_write_when_the_work_fails(cell: Cell) -> None:
    """Whatever ends the block, no half of a checkpoint is left."""
    keeper = _keeper(cell, Count(32))
    keeper.keep()
    with pytest.raises(ZeroDivisionError), keeper:
        _ = 1 / 0

    assert [path.name for path in cell.state.iterdir()] == [_told(cell)["checkpoint"]]


def test_keeper_stands_when_the_news_cannot_be_written(cell: Cell) -> None:
    """The checkpoint counts, not the news of it."""
    with _keeper(cell._replace(link=Path("/proc/no/link")), Count(32)) as keeper:
        keeper.keep()

    assert (keeper.chain()["saves"], keeper.chain()["notes"]) == (1, [])
