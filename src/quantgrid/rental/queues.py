"""The queues of leases as one controller knows them; the store has the truth."""

from collections import defaultdict
from collections.abc import Iterator

from quantgrid.errors import PlatformFault
from quantgrid.fingerprint import digest
from quantgrid.rental.tasks import Task, queue_key, queue_prefix, queue_words
from quantgrid.store import Store


class Queues:
    """Which tasks were given to which lease, in the order of their places.

    What a call without an answer did is found out by reading again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[str, list[Task]] | None = None

    def read(self) -> None:
        """Read all queues, unless they are known.

        Raises:
            PlatformFault: when the store does not answer.
        """
        if self._queues is None:
            found: dict[str, dict[int, Task]] = defaultdict(dict)
            for key in self._store.list(queue_prefix()):
                subject, place, task = queue_words(key)
                found[subject][place] = task
            self._queues = {
                subject: [places[place] for place in sorted(places)]
                for subject, places in found.items()
            }

    def forget(self) -> None:
        """Let the next `read` look again: somebody else may have given tasks away."""
        self._queues = None

    def of(self, subject: str) -> list[Task]:
        """The tasks of a lease."""
        return self._known.get(subject, [])

    def leases(self, task: Task) -> Iterator[str]:
        """The leases that a task was ever given to."""
        return (subject for subject, tasks in self._known.items() if task in tasks)

    def fresh(self, task: Task) -> str:
        """A subject for a lease that begins with a task; the same for whoever asks."""
        return digest([task.job, task.number, sum(1 for _ in self.leases(task))])

    def give(self, subject: str, task: Task) -> None:
        """Give a task to the machines of a lease.

        Raises:
            PlatformFault: when that may not have been done; queues are read again then.
        """
        tasks = self._known.setdefault(subject, [])
        try:
            while task not in tasks:
                if self._store.put_once(queue_key(subject, len(tasks) + 1, task), b""):
                    tasks.append(task)
                else:  # another controller was first
                    self._queues = None
                    self.read()
                    tasks = self._known.setdefault(subject, [])
        except PlatformFault:
            self._queues = None
            raise

    @property
    def _known(self) -> dict[str, list[Task]]:
        if self._queues is None:
            raise PlatformFault("the queues of the leases are not known yet")
        return self._queues
