"""The controller finds no name for a while, on a laptop that lost its network: no job notices."""

import json
import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rented_copy import FACTOR, RATES, Gate, RentedCopy

OUTAGE_S = 600.0 / FACTOR
"""Ten minutes of the platform's clock."""
_HOST = "platform.test"
_OWN_NAMES = """
mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/resolv.conf && shift && exec "$@"
"""


class Names:
    """The names that processes of a mount namespace of their own can resolve."""

    def __init__(self, folder: Path) -> None:
        self._hosts, self._servers = folder / "hosts", folder / "resolv.conf"
        self._servers.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        self.tell()

    def tell(self) -> None:
        """The platform has its name."""
        self._hosts.write_text(f"127.0.0.1 localhost {_HOST}\n")

    def forget(self) -> None:
        """No name is known, and whoever could be asked does not answer."""
        self._hosts.write_text("")

    def running(
        self, place: RentedCopy, *command: str
    ) -> AbstractContextManager["subprocess.Popen[str]"]:
        """A program that knows these names only; it is killed at the latest when the block ends."""
        words = ["sh", "-c", _OWN_NAMES, str(self._hosts), str(self._servers), *command]
        return place.running("unshare", "--map-root-user", "--mount", *words)


@pytest.fixture
def names(place: RentedCopy, tmp_path: Path) -> Names:
    """Names for a controller; the platform is known to it by one of them and by no number."""
    names = Names(tmp_path)
    with names.running(place, "true") as tried:
        said, _ = tried.communicate(timeout=120)
    if tried.returncode:
        pytest.skip(f"no mount namespace here: {said}")
    port = place.double.address.partition(":")[2]
    os.environ["PLAIN_URL"] = f"{_HOST}:{port}"
    return names


def _calls(place: RentedCopy) -> list[str]:
    """The operations that anybody ever asked the platform for."""
    lines = (place.double.folder / "calls.jsonl").read_text().splitlines()
    return [json.loads(line)["operation"] for line in lines]


@pytest.mark.nightly
def test_jobs_are_untouched_when_no_name_is_resolved_for_ten_minutes(
    place: RentedCopy, gate: Gate, names: Names
) -> None:
    """Nothing is cancelled, ended or rented meanwhile; afterwards all is done, each job once."""
    with names.running(place, *place.command) as controller:
        gate.await_starts(2)
        machines = place.double.billing()
        names.forget()
        with pytest.raises(subprocess.TimeoutExpired):
            controller.wait(5.0)  # what was asked before is answered
        before = _calls(place)
        with pytest.raises(subprocess.TimeoutExpired):
            controller.wait(OUTAGE_S)

        assert _calls(place) == before
        assert "launch" in before
        assert place.double.billing() == machines
        assert len(gate.starts()) == 2
        names.tell()
        gate.open()
        said, _ = controller.communicate(timeout=280)

    assert controller.returncode == 0, said
    assert said.count("Temporary failure in name resolution") == 1
    assert said.count("Machines that run go on; asking again.") == 1
    assert gate.starts() == dict.fromkeys(map(str, RATES), 1)
    place.assert_paid()
