"""Who writes a corpus: one process of one boot of one machine, so that it can be found dead."""

import os
import secrets
import socket
from dataclasses import dataclass

from quantgrid import atomic
from quantgrid.processes import place


@dataclass(frozen=True, slots=True)
class Producer:
    """A process that can be told from every other one.

    Args:
        id: Random name of this producer.
        host: Name of the machine, for people.
        place: Boot and process namespace: within one place a process number means one thing.
        pid: Its process number.
        start: When it started, in clock ticks since boot; empty where that is unknown.
    """

    id: str
    host: str
    place: str
    pid: int
    start: str

    @classmethod
    def here(cls) -> "Producer":
        """This process."""
        pid = os.getpid()
        return cls(secrets.token_hex(8), socket.gethostname(), place(), pid, atomic.start_of(pid))

    def is_same_process(self, other: "Producer") -> bool:
        """Whether two names are of one process."""
        return (self.place, self.pid, self.start) == (other.place, other.pid, other.start)

    def runs(self) -> bool | None:
        """Whether the process runs; None when it belongs to another place and cannot be seen."""
        if self.place != place():
            return None
        return atomic.is_running(self.pid, self.start)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"
