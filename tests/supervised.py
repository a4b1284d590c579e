"""Machines of the plain platform with the product's own first process, and what they leave."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quantgrid.rental import bundle, tasks
from quantgrid.rental.briefing import Briefing
from quantgrid.rental.lease import Exit, Lease, Phase, Signs
from quantgrid.rental.port import Candidate, Machine, Name, Order, Price
from quantgrid.rental.register import Register
from quantgrid.rental.tasks import Task, TaskEnd, TaskOrder
from quantgrid.store.folder import FolderStore
from rehearsal.plain.double import Double, running
from rehearsal.plain.platform import PlainPlatform

VOLUMES = {
    "v": {"name": "v", "account": "lab/main", "region": "here", "size_bytes": 1 << 30},
}
COMMAND = (sys.executable, "-m", "quantgrid", "supervise")


def until(is_so: Callable[[], Any], what: str = "", timeout_s: float = 180.0) -> Any:
    """Wait until something is so; what it then is."""
    end_s = time.monotonic() + timeout_s
    while not (seen := is_so()):
        assert time.monotonic() < end_s, f"it never came to be so: {what}"
        time.sleep(0.03)
    return seen


class House:
    """A store with a register, and a platform to rent machines on by hand."""

    def __init__(self, double: Double, folder: Path) -> None:
        self.double, self.folder = double, folder
        self.store = FolderStore(folder / "store")
        self.register = Register(self.store)
        self.platform = PlainPlatform(double.address, "token-main")
        self.digest = ""

    # -- what is asked for ------------------------------------------------------------------------

    def lease(self, nonce: str = "", life_s: float = 120.0, subject: str = "") -> Lease:
        """The next state of a lease, whose machine is about to be there."""
        subject = subject or os.urandom(32).hex()
        newest = self.register.newest(subject)
        number, attempt = (newest.number, newest.lease.attempt) if newest else (0, 0)
        lease = Lease(
            subject,
            "cell",
            "grid",
            "plain",
            "lab/main",
            phase=Phase.CREATING,
            attempt=attempt + 1,
            nonce=nonce or os.urandom(6).hex(),
            deadline_s=self.store.now().timestamp() + life_s,
        )
        assert self.register.append(number + 1, lease)
        return lease

    def task(self, lease: Lease | str, command: str, place: int = 1, **changes: Any) -> Task:
        """A task in the queue of a lease, or of a subject that has none yet."""
        subject = lease if isinstance(lease, str) else lease.subject
        task = Task(os.urandom(32).hex(), 1)
        order = TaskOrder("cell", command, self.digest, (), (), "logs/said.log")
        self.store.put_once(tasks.task_key(task), order._replace(**changes).to_bytes())
        self.store.put_once(tasks.queue_key(subject, place, task), b"")
        return task

    def packed(self, files: dict[str, str]) -> None:
        """The bundle that tasks are given from now on."""
        root = self.folder / "copy"
        for name, text in files.items():
            path = root / "scripts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        packed = bundle.pack(root)
        self.digest = bundle.put(self.store, packed.data)

    def briefing(self, lease: Lease, **changes: Any) -> Briefing:
        """What the machine of a lease is told; an idle half second ends it."""
        told = Briefing(
            store=str(self.store.root),
            subject=lease.subject,
            nonce=lease.nonce,
            deadline=lease.deadline_s,
            platform="plain",
            id_variable="PLAIN_MACHINE",
            ends_by="rehearsal.plain.platform:from_environment",
            mount="volume",
            beat_s=0.3,
            idle_s=0.5,
            grace_s=5.0,
            stall_s=30.0,
        )
        return told._replace(**changes)

    def launch(
        self, lease: Lease, secrets: tuple[str, ...] = (), words: tuple[str, ...] = (), **told: Any
    ) -> Machine:
        """The machine of a lease."""
        owner = self.register.owner()
        candidate = Candidate("cpu", 1, "here", Price(360_000, "test", "2026-11-30"))
        environment = self.briefing(lease, **told).environment()
        return self.platform.launch(
            Order(
                Name(owner, lease.subject[:12], lease.attempt, lease.nonce),
                candidate,
                "image",
                words or COMMAND,
                environment,
                secrets,
                "v",
                "volume",
                lease.deadline_s,
            )
        )

    # -- what is left -----------------------------------------------------------------------------

    def gone(self, machine: Machine, timeout_s: float = 180.0) -> dict[str, Any]:
        """What the platform knows of a machine once it costs nothing any more."""

        def ended() -> dict[str, Any] | None:
            found = next(m for m in self.double.machines() if m["id"] == machine.id)
            return found if found["ended_s"] else None

        log = self.double.folder / "logs" / machine.id
        try:
            return dict(until(ended, f"{machine.id} ends", timeout_s))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-3000:]}") from error

    def said(self, machine: Machine) -> str:
        """What the first process of a machine said."""
        return (self.double.folder / "logs" / machine.id).read_text()

    def signs(self, lease: Lease) -> Signs:
        """What the register says of the machine of a lease."""
        return self.register.signs([lease.nonce])[lease.nonce]

    def exit(self, lease: Lease) -> Exit:
        """How the machine of a lease said that it ended."""
        record = self.signs(lease).exit
        assert record is not None, "there is no exit record"
        return record

    def end(self, lease: Lease, task: Task) -> TaskEnd | None:
        """How a task ended."""
        key = tasks.done_key(lease.nonce, task)
        data = self.store.find(key)
        return TaskEnd.parse(data, key) if data else None

    def file(self, end: TaskEnd, name: str) -> str:
        """What a file says that a task brought back."""
        item = next(each for each in end.files if each.path == name)
        bundle.fetch_files(self.store, self.folder / "back", [item])
        return (self.folder / "back" / name).read_text()

    @property
    def volume(self) -> Path:
        """The volume as the platform has it."""
        return self.double.folder / "volumes" / "v"


@contextmanager
def housed(folder: Path, **world: Any) -> Iterator[House]:
    """A house with a platform of its own; nothing costs anything at the end."""
    with running(folder / "plain", **{"volumes": VOLUMES, "restarts": True} | world) as double:
        house = House(double, folder)
        try:
            yield house
        finally:
            for machine in double.billing():
                house.platform.stop(machine)
            double.wait(lambda machines: all(each["ended_s"] for each in machines))
