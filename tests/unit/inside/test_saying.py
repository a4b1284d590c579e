"""The log of a task on its way: whole lines, masked, and not too much."""

from pathlib import Path

import pytest

from quantgrid.inside import saying
from quantgrid.inside.saying import Saying
from quantgrid.rental import tasks
from quantgrid.rental.tasks import Task
from quantgrid.store.folder import FolderStore

TASK = Task("a" * 64, 1)
SECRET = {"STORE_KEY": "s3cr3t-of-the-store"}


class Desk:
    """A log file and what was sent of it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.path = FolderStore(folder / "store"), folder / "log"
        self.saying = self.fresh()

    def fresh(self) -> Saying:
        """Who sends it; a second one is that of a process that was started again."""
        return Saying(self.store, "n", TASK, self.path, SECRET)

    def say(self, text: str) -> None:
        """The task says something."""
        with self.path.open("a") as file:
            file.write(text)

    def sent(self) -> list[bytes]:
        """All pieces in their order."""
        found: list[bytes] = []
        while (data := self.store.find(tasks.log_key("n", TASK, len(found)))) is not None:
            found.append(data)
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A log that is not there yet."""
    return Desk(tmp_path)


def test_lines_are_sent_whole_when_one_is_being_written(desk: Desk) -> None:
    """A secret that is written in two halves is never sent in two halves."""
    desk.saying.send()
    desk.say("first\nwith s3cr3t-of-")
    desk.saying.send()
    desk.say("the-store\nlast")
    desk.saying.send()
    whole = desk.saying.finish()

    assert desk.sent() == [b"first\n", b"with [STORE_KEY]\n", b"last"]
    assert whole == b"first\nwith [STORE_KEY]\nlast"


def test_middle_is_left_out_when_there_is_too_much(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning and the end arrive, and how much lies between them is said."""
    monkeypatch.setattr(saying, "HEAD_BYTES", 100)
    monkeypatch.setattr(saying, "TAIL_BYTES", 25)
    monkeypatch.setattr(saying, "_CHUNK_BYTES", 50)
    desk.say("".join(f"line {number:04d}\n" for number in range(1000)))
    desk.saying.send()

    whole = desk.saying.finish()

    sent = b"".join(desk.sent())
    assert whole == sent
    assert len(whole) < 250
    assert whole.startswith(b"line 0000\n")
    assert whole.endswith(b"line 0998\nline 0999\n")
    assert b"bytes are left out here" in whole


def test_pieces_of_an_earlier_start_stay_when_the_process_was_started_again(desk: Desk) -> None:
    """Keys are created once: what is said anew comes behind what was sent before."""
    desk.say("before\n")
    desk.saying.send()
    desk.path.write_text("again\n")

    desk.fresh().finish()

    assert desk.sent() == [b"before\n", b"again\n"]
