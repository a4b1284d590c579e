"""What came of a task: its end is found, verified, and its small files are brought home.

Success is code 0 from a machine that was asked, every declared output, and records that are in the
archive and whole.  Nothing is published before all of it was verified.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.archive import Archive
from quantgrid.errors import EXIT_DONE, PlatformFault, QuantgridError
from quantgrid.rental import bundle
from quantgrid.rental.bundle import Item
from quantgrid.rental.register import Register
from quantgrid.rental.tasks import Task, TaskEnd, TaskOrder, done_key, told_key
from quantgrid.store import Store

Verify = Callable[[tuple[str, ...]], bool | None]


class Outcome(NamedTuple):
    """How a job ended, for whoever asked for it.

    Args:
        job: The job.
        code: 0 when its outputs are here; of its process, or of what went wrong around it.
        sentence: What a person has to know of a failure.
    """

    job: str
    code: int = EXIT_DONE
    sentence: str = ""

    @property
    def is_done(self) -> bool:
        """Whether its outputs are here."""
        return self.code == EXIT_DONE

    @classmethod
    def failed(cls, job: str, error: QuantgridError) -> "Outcome":
        """What became of a job around which something went wrong."""
        return cls(job, error.exit_code, str(error))


def verifier(archive: Archive) -> Verify:
    """Whether records are in an archive and whole, with files of the right size.

    None of the answers is believed for ever: what cannot be read now is not known.
    """

    def verify(records: tuple[str, ...]) -> bool | None:
        try:
            return all(_is_whole(archive, key) for key in records)
        except PlatformFault:
            return None
        except QuantgridError:
            return False

    return verify


def _is_whole(archive: Archive, key: str) -> bool:
    record = archive.find_record(key)
    if record is None:
        return False
    for blob in record["blobs"].values():
        sizes = (store.size(layout.blob_key(blob["sha256"])) for store in _stores(archive))
        if blob["size_bytes"] not in sizes:
            return False
    return True


def _stores(archive: Archive) -> tuple[Store, ...]:
    return (archive.store, *archive.others)


class Collector(NamedTuple):
    """Brings ends home.

    Args:
        register: Where machines say how tasks ended.
        root: The working copy.
        verify: Whether records are there.
    """

    register: Register
    root: Path
    verify: Verify

    def find_end(self, task: Task) -> TaskEnd | None:
        """How a task ended by the last listing; a success counts before any failure."""
        nonces = sorted(self.register.ends.get(task, ()))
        keys = [done_key(nonce, task) for nonce in nonces]
        ends = [TaskEnd.parse(self.register.get(key), key) for key in keys]
        return min(ends, key=lambda end: (end.code != EXIT_DONE, -end.ended_s), default=None)

    def collect(self, task: Task, order: TaskOrder, end: TaskEnd) -> Outcome | None:
        """Publish what a task left, and say so in the register; None while that is not known.

        Raises:
            QuantgridError: when the store cannot be read now, or what is in it is damaged.
        """
        outcome = self._judged(task, order, end)
        if outcome is None:
            return None
        bundle.fetch_files(self.register.store, self.root, _files(order, end, outcome))
        return outcome

    def tell(self, task: Task) -> None:
        """Write down that somebody was told: whoever asks for the job again gets a new task."""
        self.register.store.put_once(told_key(task), b"")

    def _judged(self, task: Task, order: TaskOrder, end: TaskEnd) -> Outcome | None:
        if end.code != EXIT_DONE:
            said = end.sentence or f"failed: the job ended with code {end.code}."
            return Outcome(task.job, end.code, said)
        missing = set(order.outputs) - {item.path for item in end.files}
        if missing:
            return _unbelieved(task, f"and did not make {', '.join(sorted(missing))}")
        verified = self.verify(end.records)
        if verified is None:
            return None
        if not verified:
            return _unbelieved(task, f"and {', '.join(end.records)} is not whole in the archive")
        return Outcome(task.job)


def _files(order: TaskOrder, end: TaskEnd, outcome: Outcome) -> Iterator[Item]:
    """What may be published, outputs last; a machine chooses no other path."""
    outputs = set(order.outputs)
    for item in end.files:
        is_beside = any(item.path.startswith(f"{folder}/") for folder in order.also)
        if item.path not in outputs and (item.path == order.log or is_beside):
            yield item
    if outcome.is_done:
        yield from (item for item in end.files if item.path in outputs)


def _unbelieved(task: Task, what: str) -> Outcome:
    return Outcome.failed(task.job, PlatformFault(f"the machine said that it was done, {what}"))
