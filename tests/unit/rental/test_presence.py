"""Whether a controller lives is seen by its machines, and told to a person once."""

from datetime import timedelta
from pathlib import Path

import pytest

from listener import listening
from quantgrid.errors import PlatformFault
from quantgrid.inside.silence import Silence
from quantgrid.rental.lease import Lease
from quantgrid.rental.presence import Presence, find_silence_s
from quantgrid.store.folder import FolderStore
from working_copy import lay

BY, LATER = "c0ffee.here.1.1.aa", "c0ffee.there.2.1.bb"


class _Clocked(FolderStore):
    """A folder whose clock a test moves."""

    ahead_s = 0.0

    def now(self):  # type: ignore[no-untyped-def]
        return super().now() + timedelta(seconds=self.ahead_s)


class _Markless(_Clocked):
    """It takes nothing new."""

    def put_once(self, key: str, _: bytes) -> bool:
        raise PlatformFault("no room", where=key)


@pytest.fixture
def store(tmp_path: Path) -> _Clocked:
    """Where controllers leave their signs."""
    return _Clocked(tmp_path / "archive")


def test_controller_is_heard_as_long_as_it_beats(store: _Clocked) -> None:
    """One sign at a time; a successor counts, another working copy does not."""
    seconds = [0.0]
    first = Presence(store, BY, 60.0, lambda: seconds[0])
    first.beat()
    store.ahead_s = 500.0
    assert find_silence_s(store, BY) == pytest.approx(500.0, abs=5)
    first.beat()
    assert find_silence_s(store, BY) == pytest.approx(500.0, abs=5)

    for seconds[0] in (60.0, 120.0):
        first.beat()
    assert len(list(store.list("rental/controllers"))) == 1
    Presence(store, LATER, 60.0).beat()
    assert len(list(store.list("rental/controllers"))) == 1
    assert find_silence_s(store, BY) is not None
    assert find_silence_s(store, "other.here.1.1.cc") is None


def test_machine_tells_once_when_its_controller_is_silent(store: _Clocked, tmp_path: Path) -> None:
    """Of two machines one tells it; who left on purpose is missed by nobody."""
    lease = Lease("a" * 64, "n0/none", "smoke", "plain", "lab", by=BY)
    with listening() as listener:
        copy = lay(tmp_path / "copy", light=True)
        copy.edit("config/config.yaml", 'webhook: ""', f"webhook: {listener.address}")
        machines = [Silence(store, 900.0, lambda: lease, lambda: copy.root) for _ in range(2)]
        controller = Presence(store, BY, 60.0)

        for machine in machines:
            machine.listen()  # nobody ever said anything
        controller.beat()
        store.ahead_s = 800.0
        for machine in machines:
            machine.listen()
        assert listener.heard == []

        store.ahead_s = 1000.0
        for machine in machines * 2:
            machine.listen()
        (notice,) = listener.heard
        assert (notice["kind"], notice["subject"]) == ("silence", "grid smoke")
        assert "machines on plain work on until their deadlines" in notice["text"]

        controller.leave()
        Silence(store, 0.0, lambda: lease._replace(by=LATER), lambda: copy.root).listen()
        assert len(listener.heard) == 1


def test_machine_tells_once_when_no_mark_can_be_left(store: _Clocked, tmp_path: Path) -> None:
    """Rather once a machine than never; not once a look."""
    lease = Lease("a" * 64, "n0/none", "smoke", "plain", "lab", by=BY)
    Presence(store, BY, 60.0).beat()
    full = _Markless(tmp_path / "archive")
    full.ahead_s = 1000.0
    with listening() as listener:
        copy = lay(tmp_path / "copy", light=True)
        copy.edit("config/config.yaml", 'webhook: ""', f"webhook: {listener.address}")
        machine = Silence(full, 900.0, lambda: lease, lambda: copy.root)

        for _ in range(3):
            machine.listen()

        assert [each["kind"] for each in listener.heard] == ["silence"]
