"""A disk that was full when the result of a job was finished.

Incident: a job trained for a day on a disk that other jobs filled.  The archive lay on the same
disk and could not take the result, nor was there room to write down that it waited; the attempt
ended, and its weights went with its private folder.

Guard: `quantgrid.archive.waiting.spare_room` takes the room for a waiting record before the script
starts; `quantgrid.archive.waiting.deposit_or_keep` gives it back when the archive is full.
"""

from core_parts import CELL, MAKE, Desk, job_of, stage
from quantgrid import layout
from quantgrid.archive import waiting
from small_disk import SmallDisk

WEIGHTS = stage("quantise", "weights")
JOB = job_of(WEIGHTS)
FILLS = (
    MAKE
    + """
import os
from pathlib import Path
cell.state.mkdir(parents=True, exist_ok=True)
(cell.state / "checkpoint").write_text("newest")
# more
with open(os.environ["FILLED"], "wb", 0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
"""
)
TAKES_THE_SPARE = f"(Path.cwd().parent / {layout.ATTEMPT_SPARE!r}).unlink()"


def test_result_waits_when_the_disk_is_full_at_the_end(small_disk: SmallDisk) -> None:
    """The archive is full and the record waits; with room it is deposited and nothing made anew."""
    small_disk.resize(2048)
    desk = Desk.lay(small_disk.root, quantise=FILLS)
    filled = small_disk.root / "filled"

    code, said = desk.call(JOB, FILLED=str(filled))

    assert code == 71, said
    assert "the result is finished and could not be deposited" in said.splitlines()[-1]
    assert list(waiting.keys(desk.root)) == [WEIGHTS.record]
    filled.unlink()
    desk.change("quantise", "raise SystemExit('made again')")
    code, said = desk.call(JOB)
    assert code == 0, said
    assert desk.archive.record(WEIGHTS.record)["results"] == {"made": CELL}


def test_result_is_refused_in_a_sentence_when_it_has_no_room_to_wait(small_disk: SmallDisk) -> None:
    """Not even the spare room is there: nothing half-written is left, and the state is kept."""
    small_disk.resize(2048)
    desk = Desk.lay(small_disk.root, quantise=FILLS.replace("# more", TAKES_THE_SPARE))
    filled = small_disk.root / "filled"

    code, said = desk.call(JOB, FILLED=str(filled))

    assert code == 71, said
    last = said.splitlines()[-1]
    assert last.startswith("failed: the result is finished; it could not be deposited (")
    assert "it goes on from its newest checkpoint" in last
    assert list(waiting.keys(desk.root)) == []
    assert list((desk.root / layout.WAITING).iterdir()) == []
    state = layout.state_folder(desk.root / "v", CELL, "quantise", WEIGHTS.fingerprint)
    assert (state / "checkpoint").read_text() == "newest"
    filled.unlink()
    assert desk.debris() == []
    desk.change("quantise", MAKE)
    assert desk.call(JOB)[0] == 0
