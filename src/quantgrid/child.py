"""The process that runs the scripts of a job: forked from a warm interpreter, or started cold."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from quantgrid import contract


class Child(Protocol):
    """A running process in a group of its own."""

    @property
    def pid(self) -> int:
        """Its id, which is also that of its group."""

    def wait(self) -> tuple[int, float]:
        """Exit code (negative for a signal) and CPU seconds, when the process has ended."""


class ColdChild(NamedTuple):
    """A process with an interpreter of its own."""

    pid: int

    def wait(self) -> tuple[int, float]:
        """See `Child.wait`."""
        _, status, usage = os.wait4(self.pid, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def start(
    arguments: Sequence[str], environment: Mapping[str, str], *, output: int = 1, errors: int = 2
) -> Child:
    """Start `quantgrid.stages` with an empty standard input.

    Args:
        arguments: Alternating script and path of the JSON file with its contract variables.
        environment: All of its environment.
        output: Descriptor of its standard output.
        errors: Descriptor of its standard error.
    """
    if contract.WARM in os.environ:
        from quantgrid import warm

        child = warm.ask(arguments, environment, output=output, errors=errors)
        if child:
            return child
    return ColdChild(
        os.posix_spawn(
            sys.executable,
            # -P: no file of the working copy stands in for a module
            [sys.executable, "-P", "-m", "quantgrid.stages", str(os.getpid()), *arguments],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, errors, 2),
            ],
            setpgroup=0,
            setsigmask=[signal.SIGINT],  # until the scripts run, an interrupt would be a traceback
        )
    )
