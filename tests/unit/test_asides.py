"""What a running script leaves to be heard is heard while it runs, once, and not after its end."""

import json
import shutil
import sys
import threading
from pathlib import Path

from core_parts import archive_in
from quantgrid import asides, layout, noticing
from working_copy import PROJECT, WorkingCopy

BOUND_S = 180.0


def test_notice_is_heard_while_the_script_runs(tmp_path: Path) -> None:
    """It does not wait for the end of a day; one file is told once."""
    notice, told = tmp_path / "notice.json", threading.Event()
    heard: list[Path] = []

    def tell(path: Path) -> None:
        heard.append(path)
        told.set()

    with asides.heard([tmp_path / "none.json", notice], tell, every_s=0.01):
        notice.write_text("{}")
        assert told.wait(BOUND_S)

    assert heard == [notice]


def test_notice_is_heard_at_the_end_when_there_was_no_time_to_look(tmp_path: Path) -> None:
    """A script that ends at once after it is heard all the same."""
    notice = tmp_path / "notice.json"
    heard: list[Path] = []

    with asides.heard([notice], heard.append, every_s=600):
        notice.write_text("{}")

    assert heard == [notice]


def test_person_is_told_once_when_the_watch_of_a_running_cell_leaves_a_notice(
    tmp_path: Path,
) -> None:
    """By a real command, however many links say it; a torn notice tells nobody and hurts nobody."""
    hear = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
    words = json.dumps([sys.executable, "-c", hear, str(tmp_path / "heard")])
    shutil.copytree(PROJECT / "config", tmp_path / "config")
    WorkingCopy(tmp_path).edit(layout.CONFIG, "command: []", f"command: {words}")
    notice, store = tmp_path / "notice.json", archive_in(tmp_path).store
    notice.write_text('{"rule": "through')
    noticing.of_running(tmp_path, store, "n0-s0/none", "f" * 64, notice)

    notice.write_text(json.dumps({"rule": "throughput", "text": "205 tokens/s"}))
    for _ in range(2):
        noticing.of_running(tmp_path, store, "n0-s0/none", "f" * 64, notice)

    (line,) = (tmp_path / "heard").read_text().splitlines()
    assert json.loads(line)["text"] == "quantgrid stall: n0-s0/none: 205 tokens/s"
