"""What a person is told: once, soon, without secrets, and never at the cost of the work."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from listener import Listener, listening
from quantgrid import notify
from quantgrid.notify import Event, Kind, tell
from quantgrid.settings import Notify
from quantgrid.store import Entry, Store
from quantgrid.store.folder import FolderStore

ALARM = Event(Kind.ALARM, "n0-t800k-s0/none", "the gap is 0.31 nats", key="f00d")
HEAR = "import sys, os; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"


class StuckStore(FolderStore):
    """A store that does not answer before it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go, self.was_waited_for = threading.Event(), False

    def entries(self, prefix: str) -> Iterator[Entry]:
        self.was_waited_for = not self.go.wait(60)
        return super().entries(prefix)


class LaterStore(FolderStore):
    """The same store two minutes later."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """The archive's store."""
    return FolderStore(tmp_path / "archive")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A webhook."""
    with listening() as found:
        yield found


def command(tmp_path: Path, program: str = HEAR) -> Notify:
    """Settings with a real command that appends what it is told to a file."""
    return Notify(command=(sys.executable, "-c", program, str(tmp_path / "heard")), timeout_s=10)


def heard(tmp_path: Path) -> list[dict[str, str]]:
    """What the command was told."""
    path = tmp_path / "heard"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_event_reaches_command_and_webhook_when_it_is_told(
    store: Store, listener: Listener, tmp_path: Path
) -> None:
    """Both say the same: kind, subject, and one sentence."""
    both = Notify(command=command(tmp_path).command, webhook=listener.address)

    assert tell(ALARM, both, store)

    assert heard(tmp_path) == listener.heard
    assert listener.heard[0]["kind"] == "alarm"
    assert listener.heard[0]["text"].endswith("n0-t800k-s0/none: the gap is 0.31 nats")


def test_event_is_told_once_when_many_notice_it(
    store: Store, listener: Listener, tmp_path: Path
) -> None:
    """Eight at the same time and one later: one notice; another event is another notice."""
    whom = Notify(webhook=listener.address)
    at_once = threading.Barrier(8)

    def notice() -> None:
        at_once.wait(180)
        tell(ALARM, whom, store)

    threads = [threading.Thread(target=notice) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not tell(ALARM, whom, LaterStore(tmp_path / "archive"))
    assert len(listener.heard) == 1

    assert tell(ALARM._replace(key="beef"), whom, store)
    assert len(listener.heard) == 2


def test_event_is_told_by_another_when_the_first_died_over_it(
    store: Store, listener: Listener, tmp_path: Path
) -> None:
    """A mark without a message would silence an alarm for ever; it is waited for, then passed."""
    whom = Notify(webhook=listener.address)
    listener.status = 503
    assert not tell(ALARM, whom, store)
    listener.status = 200
    listener.heard.clear()

    assert not tell(ALARM, whom, store)
    assert tell(ALARM, whom, LaterStore(tmp_path / "archive"))
    assert not tell(ALARM, whom, LaterStore(tmp_path / "archive"))
    assert len(listener.heard) == 1


def test_event_is_told_when_the_store_is_gone(listener: Listener, tmp_path: Path) -> None:
    """Rather twice than never: a lost store may be just what it is about."""
    (tmp_path / "file").write_text("")
    gone = FolderStore(tmp_path / "file" / "archive")

    assert tell(ALARM, Notify(webhook=listener.address), gone)
    assert len(listener.heard) == 1


def test_event_is_told_in_bounded_time_when_the_store_is_stuck(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that hangs delays a notice, and the work that it is about, by so much and no more."""
    monkeypatch.setattr(notify, "_STORE_S", 0.2)
    stuck = StuckStore(tmp_path / "archive")

    try:
        assert tell(ALARM, Notify(webhook=listener.address), stuck)
        assert len(listener.heard) == 1
    finally:
        stuck.go.set()
    assert not stuck.was_waited_for


@pytest.mark.parametrize("program", ["import time; time.sleep(600)", "raise SystemExit(3)"])
def test_command_costs_bounded_time_when_it_hangs_or_fails(
    store: Store, tmp_path: Path, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The work goes on, a line says that nobody heard, and nothing is left running."""
    whom = Notify(command=command(tmp_path, program).command, timeout_s=2)
    begin_s = time.monotonic()

    assert not tell(ALARM, whom, store)

    assert time.monotonic() - begin_s < 240  # and not for ever
    assert "notify: the command took no notice" in capfd.readouterr().err


def test_webhook_costs_bounded_time_when_it_hangs(store: Store, listener: Listener) -> None:
    """A server that takes the message and never answers holds nobody up."""
    listener.hangs.set()
    begin_s = time.monotonic()

    assert not tell(ALARM, Notify(webhook=listener.address, timeout_s=0.5), store)
    assert time.monotonic() - begin_s < 240  # and not for ever


def test_secrets_stay_here_when_an_event_holds_one(
    store: Store, listener: Listener, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Masked in the message; the webhook's own address is a secret and comes from a variable."""
    environ = {"RUNPOD_API_KEY": "a-long-secret", "QG_HOOK": listener.address}
    event = Event(Kind.FAULT, "cell", "401 for key a-long-secret")
    whom = Notify(command=command(tmp_path).command, webhook="$QG_HOOK")

    assert tell(event, whom, store, environ)
    listener.status = 500
    tell(event._replace(key="2"), whom, store, environ)

    said = json.dumps(listener.heard) + json.dumps(heard(tmp_path)) + capfd.readouterr().err
    assert "a-long-secret" not in said
    assert "secret-part" not in said
    assert "[RUNPOD_API_KEY]" in said


def test_nothing_is_marked_when_nobody_is_to_be_told(store: Store, tmp_path: Path) -> None:
    """Without command and webhook no store is touched."""
    assert not tell(ALARM, Notify(), store)
    assert not (tmp_path / "archive").exists()
