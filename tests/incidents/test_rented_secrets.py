"""A key that everybody could read who looked at machines, logs or results.

Incident: credentials of a store stood in the environment that a listing of machines shows, in the
log that a script wrote, in the error that was passed on, and in the arguments of a process.

Guards: `quantgrid.rental.port.Order` names secrets and never carries them,
`quantgrid.masking.masked` hides them in logs and sentences, and `quantgrid.inside.yields.Yield`
refuses a file that has one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervised import House, housed, until

SECRET = "s3cr3t-of-the-store"  # noqa: S105 - it opens nothing
PRIVATE = ("world.json", "disks", "volumes")
"""What the platform itself keeps, and what only a machine sees."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A platform that keeps a secret for the account."""
    with housed(tmp_path, secrets={"STORE_KEY": SECRET}) as house:
        house.packed({"tell.sh": "true"})
        yield house


def carriers(*folders: Path) -> list[str]:
    """Files below some folders that have the secret in them."""
    files = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    public = (path for path in files if not set(PRIVATE) & set(path.parts))
    return [str(path) for path in public if SECRET.encode() in path.read_bytes()]


def processes(part: str) -> dict[int, bytes]:
    """Arguments or environment of every process that has the secret there."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            data = (path / part).read_bytes()
        except OSError:
            continue
        if SECRET.encode() in data:
            found[int(path.name)] = data
    return found


def test_secret_is_nowhere_when_a_task_tells_it_to_everybody(house: House, tmp_path: Path) -> None:
    """It is in the environment of the machine's own processes, and nowhere else in the world."""
    lease, go = house.lease(), tmp_path / "go"
    tells = 'echo "log: $STORE_KEY"; mkdir failures; echo "why: $STORE_KEY" > failures/f'
    waits = f"until [ -e {go} ]; do sleep 0.05; done"
    task = house.task(lease, f"{tells}; {waits}; echo last: $STORE_KEY; exit 3", also=("failures",))
    machine = house.launch(lease, secrets=("STORE_KEY",))
    until(lambda: house.store.find(f"rental/logs/{lease.nonce}.{task.job}.000001.000000"))

    arguments, environments = processes("cmdline"), processes("environ")
    go.touch()
    house.gone(machine)

    end = house.end(lease, task)
    assert end is not None
    assert (end.code, end.sentence) == (3, "last: [STORE_KEY]")
    assert [each.path for each in end.files] == ["logs/said.log"]
    assert arguments == {}
    assert environments
    assert all(f"PLAIN_MACHINE={machine.id}".encode() in data for data in environments.values())
    assert carriers(house.store.root, house.double.folder) == []


def test_result_is_refused_when_it_has_a_secret_in_it(house: House) -> None:
    """A receipt with a key in it is not stored; the task ends with a sentence that hides it."""
    lease = house.lease()
    writes = 'echo "{\\"record\\": \\"$STORE_KEY\\"}" > receipts/a.json'
    task = house.task(lease, writes, outputs=("receipts/a.json",))
    machine = house.launch(lease, secrets=("STORE_KEY",))

    house.gone(machine)

    end = house.end(lease, task)
    assert end is not None
    assert (end.code, end.files, end.records) == (78, (), ())
    assert "has a secret of its machine in it" in end.sentence
    assert carriers(house.store.root, house.double.folder) == []
