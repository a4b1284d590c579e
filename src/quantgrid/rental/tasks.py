"""Tasks: what machines are rented for, one Snakemake job each, as values and keys of the store.

A lease is a machine for a kind of work, and works off a queue of tasks.  Everything is created once
under a name that says it, so that a controller that comes later finds what an earlier one asked
for.  `docs/formats/rental.md` has the keys.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from quantgrid import layout
from quantgrid.errors import DataFault
from quantgrid.fingerprint import canonical
from quantgrid.rental.bundle import Item
from quantgrid.rental.register import DONE, SIGNS, sign_key
from quantgrid.store import Store

TASKS, QUEUE, LOGS, HAND_OVERS, LEFT = "tasks", "queue", "logs", "hand-overs", "left"
TOLD = "told"


class Task(NamedTuple):
    """A job and how often it was asked for.

    Args:
        job: 64 hex digits: what is made, see `job_id`.
        number: From 1; a job whose end was told to somebody gets the next one.
    """

    job: str
    number: int

    @property
    def words(self) -> tuple[str, str]:
        """As in keys."""
        return self.job, _counted(self.number)


def job_id(where: Iterable[str], rule: str, outputs: Iterable[str]) -> str:
    """What a job is known by: its place, its rule and its outputs, which carry the fingerprints.

    Args:
        where: Platform, account and volume: a corpus that was prepared on one volume is sealed
            there, though several platforms share a store.
        rule: Its rule.
        outputs: What it makes.
    """
    return sha256(canonical([*where, rule, sorted(outputs)]).encode()).hexdigest()


class TaskOrder(NamedTuple):
    """What a machine does for a task.

    Args:
        cell: For a person.
        command: A line for `bash -c`, run in the working copy.
        bundle: Digest of the working copy; empty for none.
        inputs: Small files that it needs there.
        outputs: Files that it makes, relative to the working copy.
        log: The file that has what it says; empty for none.
        also: Folders whose files travel back as well.
        environment: Names and values; no secret is among them.
        links: Files of the volume that tell of the newest checkpoints.
    """

    cell: str
    command: str
    bundle: str
    inputs: tuple[Item, ...]
    outputs: tuple[str, ...]
    log: str
    also: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    links: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """What is stored."""
        fields = self._asdict() | {"environment": dict(self.environment)}
        return _json(fields | {"inputs": [each._asdict() for each in self.inputs]})

    @classmethod
    def parse(cls, data: bytes, where: str) -> "TaskOrder":
        """Read an order.

        Raises:
            DataFault: when it is none.
        """
        try:
            fields = json.loads(data)
            lists = {name: tuple(fields[name]) for name in ("outputs", "also", "links")}
            inputs = tuple(Item(**each) for each in fields["inputs"])
            environment = tuple(fields["environment"].items())
            return cls(**fields | lists | {"inputs": inputs, "environment": environment})
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _unreadable("the order of a task", data, where) from error


class TaskEnd(NamedTuple):
    """How a task ended for good; there is none while it may go on from its checkpoint.

    Args:
        job: Of the task.
        number: Of the task.
        nonce: Of the machine.
        machine: The platform's id of it.
        code: Of its process.
        sentence: The first sentence of its error; empty without any.
        files: Outputs that it made, its log, and what travels back as well.
        records: Keys of the archive that its outputs name.
        started_s: When it began, by the store's clock.
        ended_s: When it ended.
    """

    job: str
    number: int
    nonce: str
    machine: str
    code: int
    sentence: str
    files: tuple[Item, ...]
    records: tuple[str, ...]
    started_s: float
    ended_s: float

    def to_bytes(self) -> bytes:
        """What is stored."""
        return _json(self._asdict() | {"files": [each._asdict() for each in self.files]})

    @classmethod
    def parse(cls, data: bytes, where: str) -> "TaskEnd":
        """Read an end.

        Raises:
            DataFault: when it is none.
        """
        try:
            fields = json.loads(data)
            files = tuple(Item(**each) for each in fields["files"])
            return cls(**fields | {"files": files, "records": tuple(fields["records"])})
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _unreadable("the end of a task", data, where) from error


# -- keys -----------------------------------------------------------------------------------------


def task_key(task: Task) -> str:
    """Where its order is."""
    return layout.rental_key(TASKS, *task.words)


def told_key(task: Task) -> str:
    """What is there once somebody was told how it ended."""
    return layout.rental_key(TASKS, *task.words, TOLD)


def queue_prefix(subject: str = "") -> str:
    """Where the queue of a lease is, or those of all."""
    return layout.rental_key(f"{QUEUE}/{subject}" if subject else QUEUE)


def queue_key(subject: str, place: int, task: Task) -> str:
    """What gives a task to the machines of a lease; places count from 1 without gaps."""
    return layout.rental_key(f"{QUEUE}/{subject}", _counted(place), *task.words)


def queue_words(key: str) -> tuple[str, int, Task]:
    """Subject, place and task in a key of a queue."""
    place, job, number = layout.rental_words(key)
    return key.split("/")[-2], int(place), Task(job, int(number))


def done_key(nonce: str, task: Task) -> str:
    """Where a machine says how a task ended."""
    return sign_key(nonce, DONE, *task.words)


def done_words(key: str) -> tuple[str, Task] | None:
    """Nonce and task in the key of a sign; None for a sign of another kind."""
    nonce, kind, *words = layout.rental_words(key)
    return (nonce, Task(words[0], int(words[1]))) if kind == DONE else None


def log_key(nonce: str, task: Task, count: int) -> str:
    """Where a machine puts what a task said since the last time; counts from 0."""
    return layout.rental_key(LOGS, nonce, *task.words, _counted(count))


def hand_over_key(task: Task, place: int, nonce: str, progress: str) -> str:
    """What a coordinator leaves before it rents the next one: how far all was; places from 1."""
    return layout.rental_key(HAND_OVERS, *task.words, _counted(place), nonce, progress)


def find_hand_overs(store: Store, task: Task) -> list[tuple[str, str]]:
    """Nonces and progress of the coordinators of a task that handed over, in their order."""
    found = (layout.rental_words(key) for key in store.list(layout.rental_key(HAND_OVERS)))
    ours = sorted(words[2:] for words in found if Task(words[0], int(words[1])) == task)
    return [(nonce, progress) for _, nonce, progress in ours]


def left_key(task: Task, place: int, nonce: str) -> str:
    """Where a coordinator says which files it left for the next one; places as of hand-overs."""
    return layout.rental_key(LEFT, *task.words, _counted(place), nonce)


def left_bytes(items: Iterable[Item]) -> bytes:
    """What it says."""
    return _json({"files": [each._asdict() for each in items]})


def find_left(store: Store, task: Task) -> tuple[Item, ...]:
    """What the last coordinator of a task that gave way has left; nothing if none did."""
    keys = list(store.list(layout.rental_key(LEFT)))
    ours = [key for key in keys if layout.rental_words(key)[:2] == list(task.words)]
    if not ours:
        return ()
    return tuple(Item(**each) for each in json.loads(store.get(max(ours)))["files"])


def signs_prefix() -> str:
    """Where all signs of machines are."""
    return layout.rental_key(SIGNS)


def _counted(number: int) -> str:
    return f"{number:06d}"


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode()


def _unreadable(what: str, data: bytes, where: str) -> DataFault:
    return DataFault(
        f"{what} cannot be read",
        expected="JSON as docs/formats/rental.md describes it",
        seen=repr(data[:60]),
        where=where,
        do="Ask for the job again; the damaged key is left as evidence.",
    )
