"""What machines worked on, and for how long, seen from outside: by the shell of their image.

Whoever runs a line there calls `bash`, and finds one that notes its process before it becomes the
real one.  The line is at work until that process is gone.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rehearsal.plain.state import Machine, State, start_of

_SHELL = """#!/bin/sh
work=$PLAIN_WORK
unset PLAIN_WORK
[ -z "$work" ] || echo "$$ $(date +%s.%N) $(printf %s "$2" | cksum | tr ' ' -)" >> "$work"
exec /bin/bash "$@"
"""
NOTES = "PLAIN_WORK"


class Work(NamedTuple):
    """A line that ran in a machine.

    Args:
        machine: Id of the machine.
        line: A checksum of the line: the same work has the same one.
        begin_s: When it began.
        end_s: When its process was gone; 0 while it is there.
    """

    machine: str
    line: str
    begin_s: float
    end_s: float = 0.0


class Works:
    """The notes of all machines of a platform.

    Args:
        state: Of the platform.
    """

    def __init__(self, state: State) -> None:
        self._notes, self._image = state.folder / "works", state.folder / "image"
        self._notes.mkdir(exist_ok=True)
        self._image.mkdir(exist_ok=True)
        shell = self._image / "bash"
        shell.write_text(_SHELL)
        shell.chmod(0o755)
        self._read: dict[str, int] = {}
        self._open: dict[tuple[int, str], Work] = {}
        self._over: list[Work] = []

    def environment(self, machine: Machine, path: str) -> dict[str, str]:
        """What lets a machine find the shell of its image, and the shell its notes."""
        return {"PATH": f"{self._image}:{path}", NOTES: str(self._notes / machine.id)}

    def look(self) -> None:
        """Note which lines began and which processes are gone; called again and again."""
        for path in self._notes.iterdir():
            if path.stat().st_size > self._read.get(path.name, 0):
                self._begin(path)
        for pid, start in [each for each in self._open if start_of(each[0]) != each[1]]:
            self._over.append(self._open.pop((pid, start))._replace(end_s=time.time()))

    def _begin(self, path: Path) -> None:
        data = path.read_bytes()[self._read.get(path.name, 0) :]
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path.name] = self._read.get(path.name, 0) + len(whole)
        for note in whole.decode().splitlines():
            with suppress(ValueError):
                pid, begin, line = note.split()
                work = Work(path.name, line, float(begin))
                self._open[int(pid), start_of(int(pid))] = work

    def all(self) -> Iterator[Work]:
        """Every line that ran or runs, the oldest first."""
        yield from sorted([*self._over, *self._open.values()], key=lambda each: each.begin_s)
