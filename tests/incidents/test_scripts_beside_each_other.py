"""Scripts that were written to run alone, run side by side.

Incident: a grid was given a script that kept its log, its checkpoint and its outputs under fixed
names beside itself.  Several cells ran at a time, overwrote each other's files, went on from each
other's checkpoints, and the numbers of one cell were filed under the name of another.

Guards: `quantgrid.own_stage.folder.lay` gives every attempt a private copy of what it declared, and
`quantgrid.own_stage.folder.refuse_written` fails a cell that wrote to data its neighbours read.
"""

from pathlib import Path

from own_parts import OwnDesk

ALONE = """
import json, os, sys, time
os.chdir(os.path.dirname(os.path.abspath(__file__)))
mine = float(sys.argv[1])
if os.path.exists("ckpt.json"):
    total, step = json.load(open("ckpt.json"))
else:
    total, step = 0.0, 0
while step < 20:
    total, step = total + mine, step + 1
    json.dump([total, step], open("ckpt.json", "w"))
    open("log.txt", "a").write(f"{mine}\\n")
    time.sleep(0.02)
json.dump({"total": total, "lines": len(set(open("log.txt")))}, open("result.json", "w"))
"""


def test_cells_keep_their_own_numbers_when_their_scripts_assume_to_be_alone(tmp_path: Path) -> None:
    """Four at a time with one set of names: each result is that of its own axis."""
    block = {"arguments": "{a}", "axes": {"a": [1, 2, 3, 4]}, "resume": {"files": ["ckpt.json"]}}
    desk = OwnDesk.lay(tmp_path, ALONE, block)
    jobs = [desk.job(number) for number in range(4)]

    started = [desk.start(job) for job in jobs]
    texts = [process.communicate(timeout=120)[0] for process in started]

    assert [process.returncode for process in started] == [0] * 4, texts
    assert [desk.record(job)["results"] for job in jobs] == [
        {"total": 20.0 * a, "lines": 1} for a in (1, 2, 3, 4)
    ]
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["train.py"]
